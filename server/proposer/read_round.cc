#include "server/proposer/read_round.h"

#include <boost/asio/this_coro.hpp>

#include "penstock/planted.h"
#include "server/proposer/register_calls.h"
#include "server/proposer/round_end.h"
#include "server/proposer/write_back_round.h"

namespace penstock {
namespace {

constexpr unsigned kAttemptsMax = 8;
constexpr unsigned kQuorumAttemptsMax = 2;
constexpr unsigned kStaleMax = 500;  // at 10 ms each
constexpr Duration kRecordPatience{5000};
constexpr Duration kHedge = std::chrono::milliseconds(10);  // then all replicas are asked

using ReadCalls = RegisterCalls<Accepted>;

// Which replica is asked for the whole record: the same one for a key while it is healthy, so that
// the record caches of the volumes divide the keys among them.
std::size_t preferred(const Membership& membership, const RegisterGroup& group,
                      const RegisterKey& key) {
  const std::size_t first =
      std::hash<std::string_view>{}(key.key) % std::max<std::size_t>(group.size(), 1);
  for (std::size_t step = 0; step < group.size(); ++step) {
    const std::size_t index = (first + step) % group.size();
    if (group.clients[index] != nullptr && !membership.suspect(group.set.volumes[index]))
      return index;
  }
  return first;
}

// The replicas that hold one ballot.
IndexMask holders_of(const ReadCalls& calls, Ballot ballot) {
  return calls.where([ballot](const Accepted& row) { return row.ballot == ballot; });
}

Accepted highest_of(const ReadCalls& calls) {
  Accepted highest;
  for (std::size_t i = 0; i < calls.group().size(); ++i) {
    const auto& answer = calls.answer(i);
    if (answer && *answer && answer->value().ballot > highest.ballot) highest = answer->value();
  }
  return highest;
}

// The ballot that a majority holds.
std::optional<Ballot> agreed(const ReadCalls& calls) {
  for (std::size_t i = 0; i < calls.group().size(); ++i) {
    const auto& answer = calls.answer(i);
    if (!answer || !*answer) continue;
    const Ballot ballot = answer->value().ballot;
    if (calls.group().majority(holders_of(calls, ballot))) return ballot;
  }
  if (!holds(Rule::agreed_read) && calls.group().majority(calls.succeeded())) {
    return highest_of(calls).ballot;
  }
  return std::nullopt;
}

// A majority cannot answer any more, because the bucket has changed, or the group (R12).
bool is_stale(const ReadCalls& calls) {
  if (!calls.failed_with(Errc::stale_bucket).empty()) return true;
  const IndexMask stale = calls.failed_with(Errc::stale_epoch);
  return !stale.empty() && !calls.group().majority(calls.group().all() - stale);
}

// A row read whole: decoded, with its inline bytes if they were asked for.
Result<Snapshot> snapshot_of(const RegisterKey& key, const Accepted& row, ReadWant want,
                             bool settled) {
  Snapshot snapshot;
  snapshot.ballot = row.ballot;
  snapshot.settled = settled;
  if (want == ReadWant::ballot) return snapshot;
  TRY(value, value_of(key, row));
  snapshot.value = std::move(value);
  if (want == ReadWant::value || snapshot.value == nullptr || snapshot.value->inline_bytes == 0) {
    return snapshot;
  }
  if (row.inline_bytes == nullptr || row.inline_bytes->size() != snapshot.value->inline_bytes) {
    return fail(Errc::corrupt, "a row without its inline bytes");
  }
  snapshot.inline_bytes = row.inline_bytes;
  return snapshot;
}

// One try of the read, from its first question to its answer.
class ReadAttempt {
 public:
  // How it ended when there is no snapshot.
  enum class Next : std::uint8_t {
    answer,
    ask_again,
    settle,
    no_quorum,
    stale_epoch,
    stale_bucket
  };
  struct Outcome {
    Next next = Next::answer;
    Snapshot snapshot;
    Error error;
  };

  ReadAttempt(ProposerContext& context, const RegisterTask& task, ReadWant want,
              std::shared_ptr<const RegisterGroup> group, bool asks_all)
      : context_(context),
        task_(task),
        want_(want),
        group_(std::move(group)),
        asks_all_(asks_all),
        until_(call_end(context, task)),
        preferred_(preferred(context.membership, *group_, task.ref.key)),
        calls_(context, group_, 0, unawaited()) {}

  Task<Outcome> run();

 private:
  using Row = std::optional<Accepted>;

  IndexMask suspects() const {
    IndexMask suspects;
    for (std::size_t i = 0; i < group_->size(); ++i) {
      if (context_.membership.suspect(group_->set.volumes[i])) suspects.add(i);
    }
    return suspects;
  }
  // Suspects are asked but not awaited, unless there is no majority without them.
  IndexMask unawaited() const {
    const IndexMask late = suspects();
    return group_->majority(group_->all() - late) ? late : IndexMask{};
  }
  IndexMask asked_first() const;
  std::shared_ptr<const ReadRequest> request(ReadWant want) const;
  void ask(Executor executor, IndexMask replicas);
  Task<> gather();
  Task<> gather_from_all();
  Task<Outcome> answer(Ballot ballot);
  Task<Outcome> send_again();
  // The whole row at `ballot` from one of those that hold it; nullopt: none answers with it any
  // more.
  Task<Row> fetch(Ballot ballot, ReadWant want);

  ProposerContext& context_;
  const RegisterTask& task_;
  const ReadWant want_;
  const std::shared_ptr<const RegisterGroup> group_;
  const bool asks_all_;
  const Deadline until_;  // of the calls that gather
  const std::size_t preferred_;
  ReadCalls calls_;
};

std::shared_ptr<const ReadRequest> ReadAttempt::request(ReadWant want) const {
  auto request = std::make_shared<ReadRequest>();
  request->key = task_.ref.key;
  request->round = make_round(*group_, task_.ref, task_.pass_fence);
  request->want = want;
  return request;
}

// A majority, from the preferred one on: nearly always it agrees, and the others are not bothered.
// All, if there is none of those that are there and no suspects, or an attempt before has failed.
IndexMask ReadAttempt::asked_first() const {
  if (asks_all_) return group_->all();
  const IndexMask late = suspects();
  IndexMask some;
  for (std::size_t step = 0; step < group_->size(); ++step) {
    const std::size_t index = (preferred_ + step) % group_->size();
    if (group_->clients[index] != nullptr && !late.has(index)) some.add(index);
    if (group_->majority(some)) return some;
  }
  return group_->all();
}

void ReadAttempt::ask(Executor executor, IndexMask replicas) {
  const auto whole = request(want_);
  const auto ballots = request(ReadWant::ballot);
  for (std::size_t i = 0; i < group_->size(); ++i) {
    if (!replicas.has(i)) continue;
    if (group_->clients[i] == nullptr) {
      calls_.fail_at(i, fail(Errc::unavailable, "out of reach"));
    } else {
      calls_.start_at(executor, i,
                      group_->clients[i]->read(i == preferred_ ? whole : ballots, until_));
    }
  }
}

Task<> ReadAttempt::gather() {
  const auto executor = co_await boost::asio::this_coro::executor;
  const IndexMask first = asked_first();
  ask(executor, first);
  const IndexMask others = group_->all() - first;
  if (!others.empty()) {
    auto settled = [this] { return is_stale(calls_) || agreed(calls_).has_value(); };
    const BootTime hedge = context_.clock.boot() + Duration(kHedge);
    co_await calls_.wait(settled, until_.capped(hedge));
    if (!settled()) ask(executor, others);
  }
  co_return co_await gather_from_all();
}

// Until a majority agrees; or all have answered, or 20 ms have passed since a majority has.
Task<> ReadAttempt::gather_from_all() {
  auto majority_told = [this] { return is_stale(calls_) || group_->majority(calls_.succeeded()); };
  co_await calls_.wait(majority_told, until_);
  if (!majority_told()) {
    // Some that were no suspects have failed: who is suspect may be well again, and is needed now.
    calls_.await_all();
    co_await calls_.wait(std::move(majority_told), until_);
  }
  auto settled = [this] { return is_stale(calls_) || agreed(calls_).has_value(); };
  const BootTime patience = context_.clock.boot() + Duration(limits::kReadPatience);
  co_await calls_.wait(std::move(settled), until_.capped(patience));
  if (!agreed(calls_)) co_return Result<>{};
  // Better a short wait for the record that was asked for than one question more.
  auto whole = [this] { return calls_.answer(preferred_).has_value(); };
  const BootTime soon = context_.clock.boot() + kRecordPatience;
  co_await calls_.wait(std::move(whole), until_.capped(soon));
  co_return Result<>{};
}

Task<ReadAttempt::Outcome> ReadAttempt::run() {
  CO_CHECK(co_await gather());
  Outcome outcome;
  if (const auto ballot = agreed(calls_)) co_return co_await answer(*ballot);
  if (!calls_.failed_with(Errc::stale_bucket).empty()) {
    outcome.next = Next::stale_bucket;
    co_return outcome;
  }
  if (group_->majority(calls_.succeeded())) co_return co_await send_again();
  const auto other_epoch =
      calls_.failed_with(Errc::stale_epoch) | calls_.failed_with(Errc::epoch_behind);
  if (!other_epoch.empty()) {
    outcome.next = Next::stale_epoch;
    co_return outcome;
  }
  outcome.next = Next::no_quorum;
  outcome.error = no_quorum_error(calls_);
  co_return outcome;
}

Task<ReadAttempt::Outcome> ReadAttempt::answer(Ballot ballot) {
  Outcome outcome;
  outcome.snapshot.ballot = ballot;
  outcome.snapshot.settled = true;
  if (ballot.is_zero() || want_ == ReadWant::ballot) co_return outcome;
  CO_TRY(row, co_await fetch(ballot, want_));
  if (!row) {
    outcome.next = Next::ask_again;
    co_return outcome;
  }
  CO_TRY(snapshot, snapshot_of(task_.ref.key, *row, want_, true));
  outcome.snapshot = std::move(snapshot);
  co_return outcome;
}

Task<ReadAttempt::Outcome> ReadAttempt::send_again() {
  Outcome outcome;
  outcome.next = Next::settle;
  const Accepted highest = highest_of(calls_);
  // A row of another epoch may not be spread under this one (R12).
  if (highest.epoch != group_->epoch() && holds(Rule::row_epoch)) co_return outcome;
  CO_TRY(row, co_await fetch(highest.ballot, ReadWant::value_and_inline));
  if (!row) {
    outcome.next = Next::ask_again;
    co_return outcome;
  }
  Proposal proposal;
  proposal.ballot = row->ballot;
  proposal.value = row->value;
  proposal.inline_bytes = row->inline_bytes;
  proposal.holders = holders_of(calls_, row->ballot);
  CO_TRY(end, co_await accept_round(context_, task_, group_, std::move(proposal), nullptr));
  if (end.end == RoundEnd::stale_bucket) outcome.next = Next::stale_bucket;
  if (end.end != RoundEnd::majority && holds(Rule::sent_again)) co_return outcome;
  CO_TRY(snapshot, snapshot_of(task_.ref.key, *row, want_, true));
  outcome.next = Next::answer;
  outcome.snapshot = std::move(snapshot);
  co_return outcome;
}

Task<ReadAttempt::Row> ReadAttempt::fetch(Ballot ballot, ReadWant want) {
  const auto& key = task_.ref.key;
  const auto& first = calls_.answer(preferred_);
  if (want_ == want && first && *first && first->value().ballot == ballot &&
      snapshot_of(key, first->value(), want, false)) {
    co_return Row(first->value());
  }
  const IndexMask holders = holders_of(calls_, ballot);
  const auto whole = request(want);
  for (std::size_t step = 0; step < group_->size(); ++step) {
    const std::size_t index = (preferred_ + step) % group_->size();
    if (!holders.has(index)) continue;
    const Deadline until = call_end(context_, task_);
    auto call = group_->clients[index]->read(whole, until);
    auto row = co_await call_one(context_, group_, index, std::move(call), until);
    if (row && row->ballot == ballot && snapshot_of(key, *row, want, false)) {
      co_return Row(std::move(*row));
    }
  }
  co_return Row();
}

// Whether a replica holds the row at this ballot, as far as it can tell at once.
bool is_at(VolumeClient& client, const ReadRequest& request, const Ballot& ballot) {
  if (!ballot.is_zero() && client.holds_now(request, ballot)) return true;
  const auto answer = client.read_now(request);
  return answer && *answer && (*answer)->ballot == ballot;
}

}  // namespace

Task<Snapshot> read_round(ProposerContext& context, RegisterTask task, ReadWant want) {
  const RegisterKey& key = task.ref.key;
  Error last = fail(Errc::unavailable, "the register keeps changing");
  unsigned without_quorum = 0;
  unsigned stale = 0;
  for (unsigned attempt = 0; attempt < kAttemptsMax; ++attempt) {
    CO_TRY(group, context.groups.find(key.bucket, key.key, task.ref.partitions));
    ReadAttempt once(context, task, want, group, attempt > 0);
    CO_TRY(outcome, co_await once.run());
    using Next = ReadAttempt::Next;
    if (outcome.next == Next::answer) co_return std::move(outcome.snapshot);
    if (outcome.next == Next::stale_bucket)
      co_return fail(Errc::stale_bucket, "the bucket has changed");
    if (outcome.next == Next::no_quorum) {
      last = std::move(outcome.error);
      if (++without_quorum >= kQuorumAttemptsMax) break;
    }
    if (context.clock.boot() >= task.deadline) break;
    if (outcome.next == Next::stale_epoch && ++stale < kStaleMax) {
      co_await context.learner.learn();
      --attempt;  // a change of the group is no contention: it ends by itself
      continue;
    }
    co_await retry_wait(context, attempt,
                        outcome.next == Next::no_quorum ? last.code : Errc::unavailable);
    if (outcome.next != Next::settle) continue;
    // The value is settled now; the next round of questions finds it at a majority.
    CO_CHECK(co_await write_back_round(context, task, WriteBack::if_needed));
  }
  co_return std::move(last);
}

Task<bool> uncontested_round(ProposerContext& context, RegisterTask task, Ballot ballot) {
  const RegisterKey& key = task.ref.key;
  CO_TRY(group, context.groups.find(key.bucket, key.key, task.ref.partitions));
  for (std::size_t i = 0; i < group->size(); ++i) {
    const bool there = group->clients[i] != nullptr;
    if (!there || context.membership.suspect(group->set.volumes[i])) co_return false;
  }
  auto request = std::make_shared<ReadRequest>();
  request->key = key;
  request->round = make_round(*group, task.ref, task.pass_fence);
  request->want = ReadWant::ballot;
  const Deadline until = call_end(context, task);
  const auto executor = co_await boost::asio::this_coro::executor;
  ReadCalls calls(context, group);
  for (std::size_t i = 0; i < group->size(); ++i) {
    calls.start_at(executor, i, group->clients[i]->read(request, until));
  }
  auto all = [] { return false; };
  co_await calls.wait(std::move(all), until);
  if (calls.succeeded() != group->all() || agreed(calls) != ballot) co_return false;
  co_return highest_of(calls).ballot <= ballot;
}

std::optional<Snapshot> read_at_once(ProposerContext& context, const RegisterRef& ref,
                                     ReadWant want) {
  const auto found = context.groups.find(ref.key.bucket, ref.key.key, ref.partitions);
  if (!found) return std::nullopt;
  const RegisterGroup& group = **found;
  const std::size_t first = preferred(context.membership, group, ref.key);
  ReadRequest request;
  request.key = ref.key;
  request.round = make_round(group, ref, false);
  request.want = want;
  IndexMask holders;
  Accepted row;
  for (std::size_t step = 0; step < group.size(); ++step) {
    const std::size_t index = (first + step) % group.size();
    VolumeClient* const client = group.clients[index].get();
    if (step == 0) {
      auto answer = client == nullptr ? std::nullopt : client->read_now(request);
      if (!answer || !*answer) return std::nullopt;
      row = std::move(**answer);
      request.want = ReadWant::ballot;
    } else if (client == nullptr || !is_at(*client, request, row.ballot)) {
      continue;
    }
    holders.add(index);
    if (!group.majority(holders)) continue;
    auto snapshot = snapshot_of(ref.key, row, want, true);
    return snapshot ? std::optional(std::move(*snapshot)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace penstock
