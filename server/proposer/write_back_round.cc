#include "server/proposer/write_back_round.h"

namespace penstock {

Task<WrittenBack> accept_highest(ProposerContext& context, const RegisterTask& task,
                                 const Promises& promises,
                                 std::shared_ptr<const RegisterValue> value,
                                 BallotSource& ballots) {
  WrittenBack settled;
  Proposal proposal = tombstone_of_absent(task, promises.ballot);
  if (value != nullptr) {
    CO_TRY(again, co_await highest_again(context, task, promises, *value));
    proposal = std::move(again);
  }
  settled.snapshot.ballot = promises.ballot;
  settled.snapshot.inline_bytes = proposal.inline_bytes;
  settled.snapshot.settled = true;
  Accepted row;
  row.ballot = promises.ballot;
  row.value = proposal.value;
  CO_TRY(stored, value_of(task.ref.key, row));
  settled.snapshot.value = std::move(stored);
  CO_TRY(end, co_await accept_round(context, task, promises.group, std::move(proposal), &ballots));
  settled.end = std::move(end);
  co_return settled;
}

Task<Snapshot> write_back_round(ProposerContext& context, RegisterTask task, WriteBack how) {
  BallotSource ballots(context);
  Error last = fail(Errc::unavailable, "other rounds are under way");
  unsigned without_quorum = 0;
  for (unsigned attempt = 0; attempt < kRoundsMax && without_quorum < kWithoutQuorumMax;
       ++attempt) {
    if (context.clock.boot() >= task.deadline) break;
    if (attempt > 0) co_await retry_wait(context, attempt - 1, last.code);
    CO_TRY(promises, co_await prepare_round(context, task, ballots));
    if (promises.end == RoundEnd::stale_bucket) co_return std::move(promises.error);
    if (promises.end != RoundEnd::majority) {
      without_quorum += promises.end == RoundEnd::no_quorum ? 1 : 0;
      last = std::move(promises.error);
      continue;
    }
    CO_TRY(value, value_of(task.ref.key, promises.highest));
    const bool absent = value == nullptr;
    const bool keep = how == WriteBack::if_needed || (how == WriteBack::always && absent);
    if (keep && (promises.settled || how == WriteBack::always)) {
      Snapshot snapshot;
      snapshot.ballot = promises.highest.ballot;
      snapshot.value = std::move(value);
      snapshot.settled = promises.settled;
      co_return snapshot;
    }
    CO_TRY(settled, co_await accept_highest(context, task, promises, std::move(value), ballots));
    if (settled.end.end == RoundEnd::majority) co_return std::move(settled.snapshot);
    if (settled.end.end == RoundEnd::stale_bucket) co_return std::move(settled.end.error);
    without_quorum += settled.end.end == RoundEnd::no_quorum ? 1 : 0;
    last = std::move(settled.end.error);
  }
  co_return std::move(last);
}

}  // namespace penstock
