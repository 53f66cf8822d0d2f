// Runs several coroutines side by side on the caller's executor and waits for some or all of them.
// Those still under way when the caller goes on run to their end by themselves; each has a deadline
// of its own, so that is soon. When the FanOut is gone, what they answer is dropped.
// Ownership: a running coroutine must own, or refer to long-lived parts of, all that it touches.
// Cost: one allocation for a FanOut of up to eight calls, and per wait those of an Alarm.
// Thread-safety: one executor.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/container/small_vector.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/assert.h"
#include "penstock/async.h"
#include "penstock/index_mask.h"
#include "penstock/runtime.h"
#include "penstock/wakeup.h"

namespace penstock {

// Is told of each call, by its index, and lives until the last one has ended.
struct Unwatched {
  void began(std::size_t) {}
  // Also when nobody waits for it any more.
  template <class T>
  void answered(std::size_t, const Result<T>&) {}
  void ended(std::size_t) {}  // the call is gone; not without an answer
  void left() {}              // the FanOut is gone
};

template <class T, class Watcher = Unwatched>
class FanOut {
 public:
  // Answers by index; empty = none yet.
  using Answer = std::optional<Result<T>>;
  using Answers = boost::container::small_vector<Answer, 8>;
  // Asked while a wait is on, after each answer. May refer to the frame of who waits.
  using Enough = std::function<bool()>;

  // `count` places for calls that start_at() their index; start() takes the next ones.
  explicit FanOut(std::size_t count = 0, Watcher watcher = {})
      : state_(std::make_shared<State>(count, std::move(watcher))) {}
  FanOut(FanOut&&) noexcept = default;
  FanOut& operator=(FanOut&&) = delete;
  ~FanOut() {
    if (state_) state_->leave();
  }

  // Starts `call` as the next index.
  void start(Executor executor, Task<T> call) {
    state_->answers.emplace_back();
    start_at(std::move(executor), state_->answers.size() - 1, std::move(call));
  }
  // Each index once.
  void start_at(Executor executor, std::size_t index, Task<T> call) {
    PENSTOCK_ASSERT(index < state_->answers.size());
    boost::asio::co_spawn(executor, run(Running(state_, index), std::move(call)),
                          boost::asio::detached);
  }
  // A call that is not made counts as one that answered so.
  void fail_at(std::size_t index, Error error) { state_->answers[index].emplace(std::move(error)); }

  // Answers that no wait waits for; they count if they come. Before the first start.
  void do_not_await(IndexMask indexes) { state_->unawaited = indexes; }
  // From now on waits wait for all.
  void await_all() {
    state_->unawaited = {};
    state_->awaited = state_->running;
  }

  // Until `enough` holds or all have answered; the second form not longer than `until`.
  Awaitable<void> wait(Enough enough) { return wait_for(std::move(enough), nullptr, BootTime{}); }
  Awaitable<void> wait(Enough enough, Clock& clock, BootTime until) {
    return wait_for(std::move(enough), &clock, until);
  }
  // Until all have answered; the second form not longer than `until`.
  Awaitable<void> wait_all() { return wait(never()); }
  Awaitable<void> wait_all(Clock& clock, BootTime until) { return wait(never(), clock, until); }

  const Answers& answers() const { return state_->answers; }
  const Answer& answer(std::size_t index) const { return state_->answers[index]; }
  // The answers so far; later ones are dropped.
  Answers take() {
    Answers taken = std::move(state_->answers);
    state_->answers.clear();
    state_->answers.resize(taken.size());
    return taken;
  }

  // ---- who has answered, and what. Pre, of all: no more than IndexMask::kMax calls.
  IndexMask answered() const {
    return those([](const Result<T>&) { return true; });
  }
  // With an error; with this one.
  IndexMask failed() const {
    return those([](const Result<T>& given) { return !given; });
  }
  IndexMask failed_with(Errc code) const {
    return those([code](const Result<T>& given) { return !given && given.error().code == code; });
  }
  // With a value; with one that fulfils `test(const T&)`.
  IndexMask succeeded() const {
    return those([](const Result<T>& given) { return given.has_value(); });
  }
  template <class Test>
  IndexMask where(Test test) const {
    return those([&test](const Result<T>& given) { return given && test(given.value()); });
  }

 protected:
  const Watcher& watcher() const { return state_->watcher; }

 private:
  struct State {
    State(std::size_t count, Watcher w) : watcher(std::move(w)) { answers.resize(count); }
    bool satisfied() const { return awaited == 0 || enough(); }
    void begin(std::size_t index) {
      ++running;
      if (!unawaited.has(index)) ++awaited;
      watcher.began(index);
    }
    void take(std::size_t index, Result<T> answer) {
      --running;
      if (!unawaited.has(index)) --awaited;
      watcher.answered(index, answer);
      if (left) return;
      answers[index].emplace(std::move(answer));
      if (wakeup.is_awaited() && satisfied()) wakeup.notify();
    }
    // What has come is of no use any more: stragglers keep no memory but their own.
    void leave() {
      left = true;
      enough = nullptr;
      wakeup.leave();
      for (Answer& answer : answers) answer.reset();
      watcher.left();
    }

    Watcher watcher;
    Answers answers;
    IndexMask unawaited;
    std::size_t running = 0;
    std::size_t awaited = 0;  // of those that run
    bool left = false;
    Enough enough;
    Wakeup::State wakeup;
  };
  using Shared = std::shared_ptr<State>;

  // One call while its coroutine exists; one that is destroyed before its end has answered, too.
  class Running {
   public:
    Running(Shared state, std::size_t index) : state_(std::move(state)), index_(index) {
      state_->begin(index);
    }
    Running(Running&& other) noexcept
        : state_(std::move(other.state_)), index_(other.index_), answered_(other.answered_) {}
    ~Running() {
      if (state_ == nullptr) return;
      if (!answered_) state_->take(index_, penstock::fail(Errc::aborted, "the process ends"));
      state_->watcher.ended(index_);
    }
    void take(Result<T> answer) {
      answered_ = true;
      state_->take(index_, std::move(answer));
    }

   private:
    Shared state_;
    std::size_t index_;
    bool answered_ = false;
  };

  static Enough never() {
    return [] { return false; };
  }
  static Awaitable<void> run(Running running, Task<T> call) {
    Result<T> answer = penstock::fail(Errc::io, "no answer");
    try {
      answer = co_await std::move(call);
    } catch (...) {
      answer = error_of_exception("one of several calls");
    }
    running.take(std::move(answer));
  }
  static Awaitable<void> at_once() { co_return; }
  Awaitable<void> wait_for(Enough enough, Clock* clock, BootTime until) {
    state_->enough = std::move(enough);
    if (state_->satisfied()) return at_once();
    const Wakeup wakeup(std::shared_ptr<Wakeup::State>(state_, &state_->wakeup));
    return clock == nullptr ? wakeup.wait() : wakeup.wait(*clock, until);
  }
  template <class Test>
  IndexMask those(Test test) const {
    IndexMask mask;
    for (std::size_t i = 0; i < state_->answers.size(); ++i) {
      const Answer& given = state_->answers[i];
      if (given && test(*given)) mask.add(i);
    }
    return mask;
  }

  Shared state_;
};

}  // namespace penstock
