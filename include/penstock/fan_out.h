// Runs several coroutines side by side on the caller's executor and waits for some or all of them.
// Those still under way when the caller goes on run to their end by themselves; each has a deadline
// of its own, so that is soon.
// Ownership: a running coroutine must own, or refer to long-lived parts of, all that it touches.
// Thread-safety: one executor.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/alarm.h"
#include "penstock/async.h"
#include "penstock/runtime.h"

namespace penstock {

template <class T>
class FanOut {
 public:
  // Answers by index; empty = none yet. Pre: one thread looks at them, that of the executor.
  using Answers = std::vector<std::optional<Result<T>>>;
  using Enough = std::function<bool(const Answers&)>;

  FanOut() : state_(std::make_shared<State>()) {}

  // Starts `task` as the next index.
  void start(Executor executor, Task<T> task) {
    state_->answers.emplace_back();
    ++state_->running;
    boost::asio::co_spawn(executor, run(state_, state_->answers.size() - 1, std::move(task)),
                          boost::asio::detached);
  }
  // Until `enough` holds or all have answered.
  Task<> wait(Enough enough) { return wait_for(state_, std::move(enough), nullptr, BootTime{}); }
  // The same, but not longer than `until`.
  Task<> wait(Enough enough, Clock& clock, BootTime until) {
    return wait_for(state_, std::move(enough), &clock, until);
  }
  // Until all have answered; the second form not longer than `until`.
  Task<> wait_all() { return wait(never()); }
  Task<> wait_all(Clock& clock, BootTime until) { return wait(never(), clock, until); }
  const Answers& answers() const { return state_->answers; }
  // The answers so far; later ones are forgotten.
  Answers take() {
    Answers taken = std::move(state_->answers);
    state_->answers.assign(taken.size(), std::nullopt);
    return taken;
  }

 private:
  struct State {
    Answers answers;
    std::size_t running = 0;
    Enough enough;
    std::optional<Completion<void>> waiter;
    bool satisfied() const { return running == 0 || enough(answers); }
    void wake() {
      if (!waiter) return;
      const Completion<void> woken = *waiter;
      waiter.reset();
      woken(Result<>{});
    }
  };
  using Shared = std::shared_ptr<State>;

  static Enough never() {
    return [](const Answers&) { return false; };
  }
  static Awaitable<void> run(Shared state, std::size_t index, Task<T> task) {
    Result<T> answer = fail(Errc::io, "no answer");
    try {
      answer = co_await std::move(task);
    } catch (...) {
      answer = error_of_exception("one of several calls");
    }
    state->answers[index] = std::move(answer);
    --state->running;
    if (state->waiter && state->satisfied()) state->wake();
  }
  static Task<> wait_for(Shared state, Enough enough, Clock* clock, BootTime until) {
    state->enough = std::move(enough);
    if (state->satisfied()) co_return Result<>{};
    const auto executor = co_await boost::asio::this_coro::executor;
    std::optional<Alarm> alarm;
    if (clock != nullptr) {
      std::function<void()> ring = [state] { state->wake(); };
      alarm.emplace(executor, *clock, until, std::move(ring));
    }
    auto begin = [state](Completion<void> done) { state->waiter.emplace(std::move(done)); };
    CO_CHECK(co_await await_completion<void>(std::move(begin)));
    co_return Result<>{};
  }

  Shared state_;
};

}  // namespace penstock
