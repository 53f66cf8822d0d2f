#include "server/proposer/register_round.h"

#include "penstock/assert.h"
#include "penstock/busy_pause.h"
#include "penstock/planted.h"
#include "server/proposer/round_end.h"

namespace penstock {
namespace {

// A row of an older epoch that no write-back found when the group changed was never chosen: it
// must not win over what was written since, whose ballots may be lower (R12).
bool is_newer(const Accepted& row, const Accepted& highest) {
  if (row.epoch == highest.epoch || row.ballot.is_zero() || !holds(Rule::newest_epoch)) {
    return row.ballot > highest.ballot;
  }
  return row.epoch > highest.epoch;
}

void collect_promises(const RegisterCalls<PrepareReply>& calls, Promises& promises) {
  IndexMask holders;
  for (std::size_t i = 0; i < calls.group().size(); ++i) {
    auto& row = promises.rows.emplace_back();
    const auto& answer = calls.answer(i);
    if (!answer || !*answer || !answer->value().promised) continue;
    const PrepareReply& reply = answer->value();
    row = reply.accepted;
    promises.horizon = std::max(promises.horizon, reply.horizon);
    if (is_newer(reply.accepted, promises.highest)) {
      promises.highest = reply.accepted;
      holders = {};
    }
    if (reply.accepted.ballot == promises.highest.ballot) holders.add(i);
  }
  PENSTOCK_ASSERT(promises.rows.size() == calls.group().size());
  PENSTOCK_ASSERT(promises.highest.ballot <= promises.ballot ||
                  promises.highest.epoch > calls.group().epoch());
  promises.settled = calls.group().majority(holders);
  if (!holds(Rule::settled_joint)) {
    const Quorum old_list{calls.group().set.quorum.replicas};
    promises.settled = old_list.reached(holders);
  }
}

}  // namespace

Round make_round(const RegisterGroup& group, const RegisterRef& ref, bool pass_fence) {
  Round round;
  round.group = group.id;
  round.epoch = group.epoch();
  round.digest = group.set.digest;
  round.bucket_number = ref.number;
  round.partitions = ref.partitions;
  round.pass_fence = pass_fence;
  return round;
}

Deadline call_end(const ProposerContext& context, const RegisterTask& task) {
  return task.deadline.capped(context.clock.boot() + task.patience);
}

Awaitable<void> retry_wait(ProposerContext& context, unsigned attempt, Errc why) {
  constexpr std::uint64_t kFirstUs = 1000;
  constexpr unsigned kDoublingsMax = 7;  // 128 ms
  const std::uint64_t range_us = kFirstUs << std::min(attempt, kDoublingsMax);
  const std::uint64_t chance = context.random.next();
  constexpr unsigned kBusyTimesMax = 8;
  const auto pause = why == Errc::overloaded
                         ? busy_pause(chance, kBusyRound) * std::min(attempt + 1, kBusyTimesMax)
                         : Duration(static_cast<Duration::rep>(chance % range_us));
  co_await context.clock.sleep_until(context.clock.boot() + pause);
}

Result<std::shared_ptr<const RegisterValue>> value_of(const RegisterKey& key, const Accepted& row) {
  if (row.ballot.is_zero()) return std::shared_ptr<const RegisterValue>();
  if (row.value == nullptr) return fail(Errc::corrupt, "a row without its value");
  TRY(value, decode_value(key, *row.value));
  return std::make_shared<const RegisterValue>(std::move(value));
}

Task<Promises> prepare_round(ProposerContext& context, const RegisterTask& task,
                             BallotSource& ballots) {
  const RegisterKey& key = task.ref.key;
  CO_TRY(group, context.groups.find(key.bucket, key.key, task.ref.partitions));
  Promises promises;
  promises.group = group;
  promises.ballot = ballots.next();
  PENSTOCK_ASSERT(!promises.ballot.is_zero());
  promises.round = make_round(*group, task.ref, task.pass_fence);
  auto request = std::make_shared<PrepareRequest>();
  request->key = key;
  request->ballot = promises.ballot;
  request->round = promises.round;
  request->round.follows = ballots.follows();

  const Deadline until = call_end(context, task);
  const auto executor = co_await boost::asio::this_coro::executor;
  RegisterCalls<PrepareReply> calls(context, group);
  for (std::size_t i = 0; i < group->size(); ++i) {
    if (group->clients[i] == nullptr) {
      calls.fail_at(i, fail(Errc::unavailable, "out of reach"));
    } else {
      calls.start_at(executor, i, group->clients[i]->prepare(request, until));
    }
  }
  auto enough = [&calls] { return decided(calls, IndexMask()); };
  co_await calls.wait(std::move(enough), until);
  promises.end = end_of(calls, promises.ballot, IndexMask(), &ballots);
  if (promises.end == RoundEnd::majority) {
    collect_promises(calls, promises);
  } else {
    promises.error = error_of(promises.end, calls);
    promises.silent = is_silent(calls, IndexMask());
  }
  if (promises.end == RoundEnd::stale_epoch) co_await context.learner.learn();
  co_return promises;
}

}  // namespace penstock
