// How one coroutine waits for others that it has started: they notify, it looks at what they left
// behind and waits again. A wait can have an end, so that late ones are noticed. Children are never
// cancelled: they write into state that they share, and run to their end by themselves.
// Thread-safety: one executor, that of the waiter and of all who notify. One waiter at a time.
#pragma once
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/alarm.h"
#include "penstock/async.h"
#include "penstock/runtime.h"

namespace penstock {

// Copies share one state.
class Wakeup {
 public:
  // May be a part of what waiter and children share; then `state` keeps all of that.
  class State {
   public:
    void notify() {
      notified_ = true;
      if (!waiter_) return;
      const Completion<void> woken = *std::exchange(waiter_, std::nullopt);
      woken(Result<>{});
    }
    bool is_awaited() const { return waiter_.has_value(); }
    // Nobody comes back for it.
    void leave() { waiter_.reset(); }

   private:
    friend class Wakeup;  // one class in two halves
    bool notified_ = false;
    std::optional<Completion<void>> waiter_;
  };

  Wakeup() : state_(std::make_shared<State>()) {}
  explicit Wakeup(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Wakes the waiter; without one, the next wait() returns at once.
  void notify() const { state_->notify(); }

  // Until notify() was called since the last wait; the second form not longer than `until`.
  Awaitable<void> wait() const { return run(state_, nullptr, BootTime{}); }
  Awaitable<void> wait(Clock& clock, BootTime until) const { return run(state_, &clock, until); }

 private:
  static Awaitable<void> run(std::shared_ptr<State> state, Clock* clock, BootTime until) {
    State* const own = state.get();  // an alarm that keeps nothing needs no memory for that
    if (std::exchange(own->notified_, false)) co_return;
    std::optional<Alarm> alarm;
    if (clock != nullptr) {
      const auto executor = co_await boost::asio::this_coro::executor;
      alarm.emplace(executor, *clock, until, [own] { own->notify(); });
    }
    auto begin = [own](Completion<void> done) { own->waiter_.emplace(std::move(done)); };
    auto woken = co_await await_completion<void>(std::move(begin));
    (void)woken;
    own->notified_ = false;
  }

  std::shared_ptr<State> state_;
};

}  // namespace penstock
