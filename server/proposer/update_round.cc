#include "server/proposer/update_round.h"

#include <algorithm>

#include "penstock/assert.h"
#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/proposer/write_back_round.h"

namespace penstock {
namespace {

using Action = RegisterUpdate::Decision::Action;

// Each silent round waits four times as long as the one before, up to this: what it sends waits in
// the queues of the volumes, behind what the earlier ones have sent.
constexpr std::chrono::seconds kStepMax{2};

OpId op_id_of(const RegisterValue* value) { return value == nullptr ? OpId{} : value->op_id; }

// Absent reaches back to absent.
bool chain_has(const RegisterValue* value, OpId id) {
  return value == nullptr ? id.is_zero() : value->chain_contains(id);
}

// `value` as the successor of `current`: a new update is pushed in front of the chain, which keeps
// the last `most` and a final zero while it still reaches back to absent; a repair keeps all that.
void chain_to(RegisterValue& value, const RegisterValue* current, OpId op_id, Ballot first,
              std::size_t most) {
  if (op_id.is_zero() && current != nullptr) {
    value.op_id = current->op_id;
    value.chain = current->chain;
    value.origin = current->origin;
    value.revision = current->revision + 1;
    return;
  }
  value.op_id = op_id;
  value.origin = first;
  value.revision = 0;
  value.chain.clear();
  if (current == nullptr) {
    value.chain.push_back(OpId{});
    return;
  }
  if (!current->op_id.is_zero()) value.chain.push_back(current->op_id);
  for (const OpId id : current->chain) {
    // Op-ids, then perhaps the zero: where an op-id falls off, the zero behind it goes, too.
    if (value.chain.size() == most && !id.is_zero()) break;
    value.chain.push_back(id);
  }
  PENSTOCK_ASSERT(value.chain.size() <= limits::kChainMax + 1);
}

// Those for which an accept has no room are left out: what no hint names the sweep finds, once the
// leases of its fragments are over.
void bound_hints(const RegisterKey& key, std::vector<Hint>& hints) {
  std::size_t kept = 0, bytes = 0;
  for (; kept < hints.size() && kept < limits::kHintsPerAcceptMax; ++kept) {
    bytes += stored_bytes(key, hints[kept]);
    if (bytes > limits::kHintBytesPerAcceptMax) break;
  }
  if (kept == hints.size()) return;
  log_event(LogLevel::warn, "hints_left_out",
            {{"count", std::to_string(hints.size() - kept)},
             {"of", std::to_string(hints.size())},
             {"meaning", "more is freed at once than an accept names: the sweep finds the rest"}});
  hints.resize(kept);
}

class UpdateRun {
 public:
  UpdateRun(ProposerContext& context, RegisterTask task, BootTime asked, RegisterUpdate& update)
      : context_(context),
        task_(std::move(task)),
        asked_(asked),
        update_(update),
        ballots_(context) {}
  Task<Snapshot> run();

 private:
  // The answer of the update; nullopt: prepare again.
  using Answer = std::optional<Result<Snapshot>>;
  using Value = std::shared_ptr<const RegisterValue>;
  using Decision = RegisterUpdate::Decision;

  Task<Answer> attempt();
  Task<Answer> with_promises(Promises promises);
  // Settles the promised value, then answers with it, or with `error` (R7).
  Task<Answer> finish(const Promises& promises, Value value, std::optional<Error> error);
  Task<Answer> write(const Promises& promises, Value current, Decision decision);
  Result<Proposal> propose(const Promises& promises, const RegisterValue* current,
                           Decision& decision);
  // A repair brings the inline bytes of the value along: it keeps the op-id, which they go by.
  bool keeps_inline(const RegisterValue* current, const Decision& decision) const {
    return update_.op_id().is_zero() && decision.inline_bytes == nullptr && current != nullptr &&
           current->inline_bytes > 0;
  }
  // After a step that did not reach its majority.
  Answer failed(RoundEnd end, bool silent, Error error);
  // Without a quorum. Three rounds in a row are enough if volumes said no, or are known to be
  // away, and for background work, which comes again. Else volumes that say nothing are waited
  // for. So are those that are too busy, once an accept was sent: to give up would leave its
  // outcome unknown, and a client that sends its conditional write again would get a 412 from its
  // own object.
  bool gives_up(bool silent, Errc why);
  void found_quorum();
  // `error`, if it is known that nothing was sent.
  Error not_done(Error error) const;
  bool outcome_is_lost(const Promises& promises, const RegisterValue* value) const;

  ProposerContext& context_;
  RegisterTask task_;
  const BootTime asked_;
  RegisterUpdate& update_;
  BallotSource ballots_;
  bool sent_ = false;     // an accept was sent: the value may be chosen at any time from now on
  Ballot first_;          // ballot of the first accept
  Ballot own_;            // and of the last one
  OpId base_;             // what the first one was built on
  unsigned refused_ = 0;  // rounds without a quorum: in a row, by answers
  unsigned silent_ = 0;   // and by silence, since there was one
  Error last_ = fail(Errc::unavailable, "other updates of the key are under way");
};

Error UpdateRun::not_done(Error error) const {
  if (!sent_) return error;
  return fail(Errc::unknown_outcome, "an accept was sent; then: " + error.context);
}

UpdateRun::Answer UpdateRun::failed(RoundEnd end, bool silent, Error error) {
  if (end == RoundEnd::stale_bucket) return not_done(std::move(error));
  last_ = std::move(error);
  if (end != RoundEnd::no_quorum) {
    found_quorum();
  } else if (gives_up(silent, last_.code)) {
    return not_done(std::move(last_));
  }
  return std::nullopt;
}

bool UpdateRun::gives_up(bool silent, Errc why) {
  const bool waits = silent || (sent_ && why == Errc::overloaded);
  if (!waits || task_.pass_fence) return ++refused_ >= kWithoutQuorumMax;
  refused_ = 0;
  if (silent) task_.patience = std::min(4 * task_.patience, Duration(kStepMax));
  return ++silent_ >= kWithoutQuorumMax &&
         context_.clock.boot() - asked_ >= Duration(limits::kStallPatience);
}

void UpdateRun::found_quorum() {
  refused_ = silent_ = 0;
  task_.patience = limits::kRegisterCall;
}

Task<Snapshot> UpdateRun::run() {
  for (unsigned attempt = 0; attempt < kRoundsMax; ++attempt) {
    if (context_.clock.boot() >= task_.deadline) break;
    if (attempt > 0) co_await retry_wait(context_, attempt - 1, last_.code);
    CO_TRY(answer, co_await this->attempt());
    if (answer) co_return std::move(*answer);
  }
  co_return not_done(std::move(last_));
}

Task<UpdateRun::Answer> UpdateRun::attempt() {
  auto promises = co_await prepare_round(context_, task_, ballots_);
  if (!promises) co_return Answer(not_done(std::move(promises).error()));
  if (promises->end != RoundEnd::majority)
    co_return failed(promises->end, promises->silent, std::move(promises->error));
  co_return co_await with_promises(std::move(*promises));
}

// R8: neither the own update nor what it was first built on is in the chain, or a purge may have
// cut it. What a later accept was built on tells nothing: an update that was not chosen then may
// have been written again since, above the own one.
bool UpdateRun::outcome_is_lost(const Promises& promises, const RegisterValue* value) const {
  if (!sent_) return false;
  if (!chain_has(value, base_) && holds(Rule::base_in_chain)) return true;
  return base_.is_zero() && promises.horizon >= first_.counter && holds(Rule::base_before_purge);
}

Task<UpdateRun::Answer> UpdateRun::with_promises(Promises promises) {
  auto decoded = value_of(task_.ref.key, promises.highest);
  if (!decoded) co_return Answer(not_done(std::move(decoded).error()));
  const Value value = std::move(*decoded);
  const OpId own = update_.op_id();
  const bool applied = !own.is_zero() && value != nullptr && value->chain_contains(own);
  if (applied && holds(Rule::own_update_found)) {
    co_return co_await finish(promises, value, std::nullopt);
  }
  if (outcome_is_lost(promises, value.get())) {
    co_return Answer(fail(Errc::unknown_outcome, "the key was changed by others meanwhile"));
  }
  Snapshot current;
  current.ballot = promises.highest.ballot;
  current.value = value;
  current.settled = promises.settled;
  auto decision = co_await update_.decide(current);
  if (!decision) co_return Answer(not_done(std::move(decision).error()));
  switch (decision->action) {
    case Action::restart:
      found_quorum();
      co_return Answer();
    case Action::keep:
      co_return co_await finish(promises, value, std::nullopt);
    case Action::refuse:
      co_return co_await finish(promises, value, std::optional<Error>(std::move(decision->error)));
    case Action::write:
      break;
  }
  co_return co_await write(promises, value, std::move(*decision));
}

Task<UpdateRun::Answer> UpdateRun::finish(const Promises& promises, Value value,
                                          std::optional<Error> error) {
  Snapshot snapshot;
  snapshot.ballot = promises.highest.ballot;
  snapshot.value = value;
  snapshot.settled = true;
  // Below an own ballot a majority proves nothing: the own value may still win.
  const bool firm = promises.settled && (!sent_ || own_ < promises.highest.ballot);
  if (!firm && holds(Rule::settled_answer)) {
    auto settled = co_await accept_highest(context_, task_, promises, std::move(value), ballots_);
    if (!settled) co_return failed(RoundEnd::no_quorum, false, std::move(settled).error());
    AcceptEnd& end = settled->end;
    if (end.end != RoundEnd::majority) {
      co_return failed(end.end, end.silent, std::move(end.error));
    }
    snapshot = std::move(settled->snapshot);
  }
  if (error) co_return Answer(std::move(*error));
  co_return Answer(std::move(snapshot));
}

Result<Proposal> UpdateRun::propose(const Promises& promises, const RegisterValue* current,
                                    Decision& decision) {
  RegisterValue& value = decision.value;
  chain_to(value, current, update_.op_id(), sent_ ? first_ : promises.ballot, context_.chain_max);
  if (decision.inline_bytes != nullptr) {
    value.inline_bytes = static_cast<std::uint32_t>(decision.inline_bytes->size());
  } else {
    value.inline_bytes = keeps_inline(current, decision) ? current->inline_bytes : 0;
  }
  Proposal proposal;
  proposal.ballot = promises.ballot;
  proposal.value = std::make_shared<const std::string>(encode(task_.ref.key, value));
  if (proposal.value->size() > limits::kValueBytesMax) {
    return fail(Errc::invalid, "a value of " + std::to_string(proposal.value->size()) + " bytes");
  }
  proposal.inline_bytes = decision.inline_bytes;
  proposal.hints = std::move(decision.hints);
  bound_hints(task_.ref.key, proposal.hints);
  proposal.adds_nothing = value.kind == ValueKind::tombstone;
  return proposal;
}

Task<UpdateRun::Answer> UpdateRun::write(const Promises& promises, Value current,
                                         Decision decision) {
  PENSTOCK_ASSERT(promises.end == RoundEnd::majority);
  auto made = propose(promises, current.get(), decision);
  if (!made) co_return Answer(not_done(std::move(made).error()));
  if (keeps_inline(current.get(), decision)) {
    auto kept = co_await highest_again(context_, task_, promises, *current);
    if (!kept) co_return failed(RoundEnd::no_quorum, false, std::move(kept).error());
    made->inline_bytes = std::move(kept->inline_bytes);
    made->have_inline = kept->have_inline;
  }
  const bool sent_before = std::exchange(sent_, true);
  if (!sent_before) first_ = promises.ballot;
  if (!sent_before || !holds(Rule::first_base)) base_ = op_id_of(current.get());
  PENSTOCK_ASSERT(own_ < promises.ballot && first_ <= promises.ballot);
  own_ = promises.ballot;
  auto end = co_await accept_round(context_, task_, promises.group, std::move(*made), &ballots_);
  if (!end) co_return Answer(not_done(std::move(end).error()));
  if (end->end == RoundEnd::majority) {
    Snapshot snapshot;
    snapshot.ballot = promises.ballot;
    snapshot.value = std::make_shared<const RegisterValue>(std::move(decision.value));
    snapshot.inline_bytes = std::move(decision.inline_bytes);
    snapshot.settled = true;
    co_return Answer(std::move(snapshot));
  }
  if (end->rejected && !sent_before) co_return Answer(std::move(end->error));
  co_return failed(end->end, end->silent, std::move(end->error));
}

}  // namespace

Task<Snapshot> update_round(ProposerContext& context, RegisterTask task, BootTime asked,
                            RegisterUpdate& update) {
  UpdateRun run(context, std::move(task), asked, update);
  co_return co_await run.run();
}

}  // namespace penstock
