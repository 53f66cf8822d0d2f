#include "server/proposer/purge_round.h"

#include "penstock/planted.h"
#include "server/proposer/round_end.h"
#include "server/proposer/write_back_round.h"

namespace penstock {

Task<std::optional<TombstoneMark>> mark_round(ProposerContext& context, RegisterTask task) {
  BallotSource ballots(context);
  CO_TRY(promises, co_await prepare_round(context, task, ballots));
  if (promises.end == RoundEnd::refused) {  // once more, with what a majority demands
    CO_TRY(again, co_await prepare_round(context, task, ballots));
    promises = std::move(again);
  }
  if (promises.end != RoundEnd::majority) co_return std::move(promises.error);
  const RegisterGroup& group = *promises.group;
  std::optional<TombstoneMark> mark;
  if (!group.set.quorum.joint.empty()) co_return mark;
  CO_TRY(value, value_of(task.ref.key, promises.highest));
  if (value != nullptr && is_live(value->kind)) {
    // The tombstone is what a replica kept that missed a later write: it is told the write.
    CO_TRY(told, co_await accept_highest(context, task, promises, std::move(value), ballots));
    (void)told;
    co_return mark;
  }
  // Absent here may still be a tombstone elsewhere, left by a purge that was cut short.
  Proposal proposal = tombstone_of_absent(task, promises.ballot);
  if (value != nullptr) proposal.value = promises.highest.value;
  proposal.wait_for_all = true;
  CO_TRY(end, co_await accept_round(context, task, promises.group, std::move(proposal), &ballots));
  const bool by_all = end.by_all || !holds(Rule::marked_by_all);
  if (by_all && end.end == RoundEnd::majority) mark = TombstoneMark{promises.ballot, group.epoch()};
  co_return mark;
}

Task<DropEnd> drop_round(ProposerContext& context, RegisterTask task, TombstoneMark mark) {
  const RegisterKey& key = task.ref.key;
  CO_TRY(group, context.groups.find(key.bucket, key.key, task.ref.partitions));
  const bool same_epoch = group->epoch() == mark.epoch && group->set.quorum.joint.empty();
  if (!same_epoch && holds(Rule::mark_in_epoch)) co_return DropEnd::void_mark;
  auto request = std::make_shared<DropRequest>();
  request->key = key;
  request->ballot = mark.ballot;
  request->round = make_round(*group, task.ref, task.pass_fence);
  const Deadline until = call_end(context, task);
  const auto executor = co_await boost::asio::this_coro::executor;
  RegisterCalls<void> calls(context, group);
  for (std::size_t i = 0; i < group->size(); ++i) {
    if (group->clients[i] == nullptr) {
      calls.fail_at(i, fail(Errc::unavailable, "out of reach"));
    } else {
      calls.start_at(executor, i, group->clients[i]->drop(request, until));
    }
  }
  auto all = [] { return false; };
  co_await calls.wait(std::move(all), until);
  if (!calls.failed_with(Errc::stale_epoch).empty()) co_return DropEnd::void_mark;
  if (!calls.failed_with(Errc::refused).empty()) co_return DropEnd::void_mark;
  for (std::size_t i = 0; i < group->size(); ++i) {
    const auto& answer = calls.answer(i);
    const bool done = (answer && *answer) || !holds(Rule::dropped_by_all);
    if (!done) co_return DropEnd::ask_again;
  }
  co_return DropEnd::all_answered;
}

}  // namespace penstock
