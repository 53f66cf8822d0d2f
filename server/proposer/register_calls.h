// One register call to each replica of a group, side by side on the caller's executor. A round
// waits for as many answers as it needs; the calls that it leaves behind run to their end (R5) and
// are still reported to the failure detector. Thread-safety: one executor.
#pragma once
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/alarm.h"
#include "penstock/async.h"
#include "server/proposer/proposer_context.h"

namespace penstock {

template <class Reply>
class RegisterCalls {
 public:
  using Answer = std::optional<Result<Reply>>;

  // `accept_bytes` > 0: the calls are accepts of that size and count as stragglers when left
  // behind. `unawaited`: replicas whose answers no wait waits for; they count if they come.
  RegisterCalls(ProposerContext& context, std::shared_ptr<const RegisterGroup> group,
                std::size_t accept_bytes = 0, IndexMask unawaited = {})
      : state_(std::make_shared<State>(context, std::move(group), accept_bytes, unawaited)) {}
  ~RegisterCalls() { state_->leave(); }
  RegisterCalls(const RegisterCalls&) = delete;
  RegisterCalls& operator=(const RegisterCalls&) = delete;

  const RegisterGroup& group() const { return *state_->group; }
  void start(Executor executor, std::size_t index, Task<Reply> call) {
    state_->running.add(index);
    boost::asio::co_spawn(executor, run(Running(state_, index), std::move(call)),
                          boost::asio::detached);
  }
  // A replica that is not called counts as one that answered with an error.
  void fail(std::size_t index, Error error) { state_->take(index, std::move(error)); }

  // From now on waits wait for all.
  void await_all() { state_->unawaited = {}; }
  // Until `enough` holds, all have answered or it is `until`. `enough` may refer to the caller's
  // frame.
  Task<> wait(std::function<bool()> enough, BootTime until) {
    return wait_for(state_, std::move(enough), until);
  }

  const Answer& answer(std::size_t index) const { return state_->answers[index]; }
  IndexMask answered() const { return state_->answered; }
  // The replicas whose answer fulfils `test(const Reply&)`.
  template <class Test>
  IndexMask where(Test test) const {
    IndexMask mask;
    for (std::size_t i = 0; i < group().size(); ++i) {
      const Answer& given = answer(i);
      if (given && *given && test(given->value())) mask.add(i);
    }
    return mask;
  }
  // The replicas that answered with this error.
  IndexMask failed_with(Errc code) const {
    IndexMask mask;
    for (std::size_t i = 0; i < group().size(); ++i) {
      const Answer& given = answer(i);
      if (given && !*given && given->error().code == code) mask.add(i);
    }
    return mask;
  }

 private:
  struct State {
    State(ProposerContext& c, std::shared_ptr<const RegisterGroup> g, std::size_t bytes,
          IndexMask not_awaited)
        : clock(c.clock),
          membership(c.membership),
          stragglers(c.stragglers),
          group(std::move(g)),
          accept_bytes(bytes),
          unawaited(not_awaited) {}

    void take(std::size_t index, Result<Reply> answer) {
      if (left) return;
      answers[index] = std::move(answer);
      answered.add(index);
      if (waiter && satisfied()) wake();
    }
    bool satisfied() const { return enough() || (answered | unawaited) == group->all(); }
    void wake() {
      const Completion<void> woken = *std::exchange(waiter, std::nullopt);
      woken(Result<>{});
    }
    // The round is over: its frame goes away and later answers are only reported.
    void leave() {
      left = true;
      enough = nullptr;
      waiter.reset();
      for (Answer& answer : answers) answer.reset();
      if (accept_bytes == 0) return;
      for (std::size_t i = 0; i < group->size(); ++i) {
        if (running.has(i)) stragglers->add(group->set.volumes[i], accept_bytes);
      }
    }
    void ended(std::size_t index) {
      running.remove(index);
      if (!left || accept_bytes == 0) return;
      stragglers->remove(group->set.volumes[index], accept_bytes);
    }

    Clock& clock;
    Membership& membership;
    const std::shared_ptr<StragglerSet> stragglers;
    const std::shared_ptr<const RegisterGroup> group;  // keeps the clients
    const std::size_t accept_bytes;
    IndexMask unawaited;
    std::array<Answer, 2 * limits::kReplicasMax> answers;
    IndexMask answered;
    IndexMask running;
    bool left = false;
    std::function<bool()> enough;
    std::optional<Completion<void>> waiter;
  };

  // Counts one call while its coroutine exists, also when that is destroyed before its end.
  class Running {
   public:
    Running(std::shared_ptr<State> state, std::size_t index)
        : state_(std::move(state)), index_(index) {
      state_->stragglers->started();
    }
    Running(Running&& other) noexcept
        : state_(std::move(other.state_)), index_(other.index_), answered_(other.answered_) {}
    ~Running() {
      if (state_ == nullptr) return;
      if (!answered_) state_->take(index_, penstock::fail(Errc::aborted, "the process ends"));
      state_->ended(index_);
      state_->stragglers->ended();
    }
    void take(Result<Reply> answer) {
      answered_ = true;
      const auto error = answer ? std::nullopt : std::optional(answer.error().code);
      state_->membership.report_answer(state_->group->set.volumes[index_], error);
      state_->take(index_, std::move(answer));
    }

   private:
    std::shared_ptr<State> state_;
    std::size_t index_;
    bool answered_ = false;
  };

  static Awaitable<void> run(Running running, Task<Reply> call) {
    Result<Reply> answer = penstock::fail(Errc::io, "no answer");
    try {
      answer = co_await std::move(call);
    } catch (...) {
      answer = error_of_exception("a register call");
    }
    running.take(std::move(answer));
  }

  static Task<> wait_for(std::shared_ptr<State> state, std::function<bool()> enough,
                         BootTime until) {
    state->enough = std::move(enough);
    if (!state->satisfied()) {
      const auto executor = co_await boost::asio::this_coro::executor;
      auto ring = [state] {
        if (state->waiter) state->wake();
      };
      const Alarm alarm(executor, state->clock, until, std::move(ring));
      auto begin = [state](Completion<void> done) { state->waiter.emplace(std::move(done)); };
      CO_CHECK(co_await await_completion<void>(std::move(begin)));
    }
    state->enough = nullptr;
    co_return Result<>{};
  }

  std::shared_ptr<State> state_;
};

// One question to one replica, with the same watch over its deadline and its health.
// Errors: those of the call; timeout - no answer by `until`.
template <class Reply>
Task<Reply> call_one(ProposerContext& context, std::shared_ptr<const RegisterGroup> group,
                     std::size_t index, Task<Reply> call, BootTime until) {
  const IndexMask others = group->all() - IndexMask::of(index);
  const auto executor = co_await boost::asio::this_coro::executor;
  RegisterCalls<Reply> calls(context, std::move(group), 0, others);
  calls.start(executor, index, std::move(call));
  auto never = [] { return false; };
  CO_CHECK(co_await calls.wait(std::move(never), until));
  const auto& answer = calls.answer(index);
  if (!answer) co_return fail(Errc::timeout, "no answer in time");
  co_return *answer;
}

}  // namespace penstock
