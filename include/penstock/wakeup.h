// How one coroutine waits for others that it has started: they notify, it looks at what they left
// behind and waits again. The wait has an end, so that late ones are noticed. Children are never
// cancelled: they write into state that they share, and run to their end by themselves.
// Thread-safety: one executor, that of the waiter and of all who notify. One waiter at a time.
#pragma once
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/async.h"
#include "penstock/runtime.h"

namespace penstock {

// Copies share one state.
class Wakeup {
 public:
  Wakeup() : state_(std::make_shared<State>()) {}

  // Wakes the waiter; without one, the next wait() returns at once.
  void notify() const { State::notify(*state_); }

  // Until notify() was called since the last wait, or until `when`.
  Awaitable<void> wait(Clock& clock, BootTime when) const { return run(state_, &clock, when); }

 private:
  struct State {
    bool notified = false;
    std::uint64_t waits = 0;  // which wait is on: the alarm of an earlier one must not end it
    std::optional<Completion<void>> waiter;
    static void notify(State& state) {
      state.notified = true;
      if (!state.waiter) return;
      const Completion<void> woken = std::move(*state.waiter);
      state.waiter.reset();
      woken(Result<>{});
    }
  };
  using Shared = std::shared_ptr<State>;

  static Awaitable<void> alarm(Shared state, Clock* clock, BootTime when, std::uint64_t wait) {
    try {
      co_await clock->sleep_until(when);
    } catch (...) {  // cancelled; or no memory for a timer: better early than never
      if (state->waits == wait) report_exception("an alarm");
    }
    if (state->waits == wait) State::notify(*state);  // else it was cancelled, or is late
  }

  static Awaitable<void> run(Shared state, Clock* clock, BootTime when) {
    if (!std::exchange(state->notified, false)) {
      // The alarm outlives this wait by a moment: it and its completion own the signal.
      auto cancel = std::make_shared<boost::asio::cancellation_signal>();
      auto ended = [cancel](std::exception_ptr) {};  // cancelled, which asio tells by throwing
      auto token = boost::asio::bind_cancellation_slot(cancel->slot(), std::move(ended));
      const auto executor = co_await boost::asio::this_coro::executor;
      const std::uint64_t wait = ++state->waits;
      boost::asio::co_spawn(executor, alarm(state, clock, when, wait), std::move(token));
      auto begin = [state](Completion<void> done) { state->waiter.emplace(std::move(done)); };
      auto woken = co_await await_completion<void>(std::move(begin));
      (void)woken;
      state->notified = false;
      ++state->waits;
      cancel->emit(boost::asio::cancellation_type::terminal);
    }
  }

  Shared state_;
};

}  // namespace penstock
