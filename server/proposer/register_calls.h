// One register call to each replica of a group, side by side on the caller's executor. A round
// waits for as many answers as it needs; the calls that it leaves behind run to their end (R5) and
// are still reported to the failure detector. Thread-safety: one executor.
#pragma once
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/fan_out.h"
#include "server/proposer/proposer_context.h"

namespace penstock {

// What is to be known of the calls of a round, also behind it.
class RegisterWatcher {
 public:
  // `accept_bytes` > 0: the calls are accepts of that size and count as stragglers when left
  // behind.
  RegisterWatcher(ProposerContext& context, std::shared_ptr<const RegisterGroup> group,
                  std::size_t accept_bytes)
      : membership_(&context.membership),
        stragglers_(context.stragglers),
        group_(std::move(group)),
        accept_bytes_(accept_bytes) {}

  const RegisterGroup& group() const { return *group_; }
  void began(std::size_t index) {
    running_.add(index);
    stragglers_->started();
  }
  template <class Reply>
  void answered(std::size_t index, const Result<Reply>& answer) {
    const auto error = answer ? std::nullopt : std::optional(answer.error().code);
    if (error == Errc::aborted) return;  // cut off with its thread: membership may be gone
    membership_->report_answer(group_->set.volumes[index], error);
  }
  void ended(std::size_t index) {
    running_.remove(index);
    if (left_ && accept_bytes_ > 0) {
      stragglers_->remove(group_->set.volumes[index], accept_bytes_);
    }
    stragglers_->ended();
  }
  void left() {
    left_ = true;
    if (accept_bytes_ == 0) return;
    for (std::size_t i = 0; i < group_->size(); ++i) {
      if (running_.has(i)) stragglers_->add(group_->set.volumes[i], accept_bytes_);
    }
  }

 private:
  Membership* membership_;
  std::shared_ptr<StragglerSet> stragglers_;
  std::shared_ptr<const RegisterGroup> group_;  // keeps the clients
  std::size_t accept_bytes_;
  IndexMask running_;
  bool left_ = false;
};

template <class Reply>
class RegisterCalls : public FanOut<Reply, RegisterWatcher> {
  using Calls = FanOut<Reply, RegisterWatcher>;

 public:
  // `accept_bytes`: as RegisterWatcher has it. `unawaited`: replicas whose answers no wait waits
  // for; they count if they come.
  RegisterCalls(ProposerContext& context, const std::shared_ptr<const RegisterGroup>& group,
                std::size_t accept_bytes = 0, IndexMask unawaited = {})
      : Calls(group->size(), RegisterWatcher(context, group, accept_bytes)), clock_(context.clock) {
    this->do_not_await(unawaited);
  }

  const RegisterGroup& group() const { return this->watcher().group(); }
  // Until `enough` holds, all have answered or it is `until`.
  Awaitable<void> wait(typename Calls::Enough enough, BootTime until) {
    return Calls::wait(std::move(enough), clock_, until);
  }

 private:
  Clock& clock_;
};

// One question to one replica, with the same watch over its deadline and its health.
// Errors: those of the call; timeout - no answer by `until`.
template <class Reply>
Task<Reply> call_one(ProposerContext& context, std::shared_ptr<const RegisterGroup> group,
                     std::size_t index, Task<Reply> call, BootTime until) {
  const auto executor = co_await boost::asio::this_coro::executor;
  RegisterCalls<Reply> calls(context, group);
  calls.start_at(executor, index, std::move(call));
  auto never = [] { return false; };
  co_await calls.wait(std::move(never), until);
  const auto& answer = calls.answer(index);
  if (!answer) co_return fail(Errc::timeout, "no answer in time");
  co_return *answer;
}

}  // namespace penstock
