// The calls of a store that wait for its workers. A worker may be stuck in a disk call that never
// returns: closing answers all that wait, in the worker's place. What a worker answers later is
// ignored (Completion). Shared by the store and the coroutines that wait.
// Thread-safety: all methods from any thread.
#pragma once
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/async.h"
#include "penstock/caught.h"

namespace penstock {

class PendingCalls : public std::enable_shared_from_this<PendingCalls> {
 public:
  // As await_completion(), until the calls are closed, or until `deadline` (seen by expire()):
  // `timeout`. `when_closed` is what this call answers if it is under way by then: `io` for one
  // that may have changed the disk. `owner`: see give_up().
  template <class T, class Start>
  Task<T> wait(Start start, Deadline deadline = Deadline::max(),
               Errc when_closed = Errc::unavailable, const void* owner = nullptr) {
    return wait_for<T>(shared_from_this(), std::move(start), deadline, when_closed, owner);
  }
  // As run_on().
  template <class T, class Function>
  Task<T> run_on(Worker& worker, Function function, Deadline deadline = Deadline::max()) {
    auto start = [&worker, f = std::move(function)](Completion<T> done) mutable {
      worker.submit([f = std::move(f), done = std::move(done)]() mutable {
        try {
          done(f());
        } catch (...) {  // whoever waits must not wait for ever
          done(error_of_exception("a job of a volume"));
        }
      });
    };
    return wait<T>(std::move(start), deadline);
  }

  // Answers all that wait, and all that come later at once. The first reason stays.
  void close(const Error& why);
  // Answers those whose deadline is over.
  void expire(BootTime now);
  // Answers those of `owner` with `timeout`.
  void give_up(const void* owner);
  std::size_t count() const;

 private:
  using Answer = std::function<void(const Error& error)>;
  struct Entry {
    Deadline deadline;
    Errc when_closed;
    const void* owner;
    Answer answer;
  };
  using Entries = std::list<Entry>;

  // Takes the entry out again when the wait is over.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    ~Ticket() {
      if (calls_) calls_->remove(at_);
    }
    // False: closed, and answered.
    bool enter(std::shared_ptr<PendingCalls> calls, Entry entry);

   private:
    std::shared_ptr<PendingCalls> calls_;
    Entries::iterator at_;
  };

  template <class T, class Start>
  static Task<T> wait_for(std::shared_ptr<PendingCalls> self, Start start, Deadline deadline,
                          Errc when_closed, const void* owner) {
    Ticket ticket;
    Ticket* const place = &ticket;
    auto begin = [self, place, deadline, when_closed, owner,
                  s = std::move(start)](Completion<T> done) mutable {
      Entry entry{deadline, when_closed, owner, [done](const Error& error) { done(error); }};
      if (place->enter(self, std::move(entry))) s(std::move(done));
    };
    co_return co_await await_completion<T>(std::move(begin));
  }
  void remove(Entries::iterator at);

  mutable std::mutex mutex_;  // guards all below
  Entries entries_;
  std::optional<Error> closed_;
};

}  // namespace penstock
