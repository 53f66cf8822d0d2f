// How the answers to a prepare or an accept decide its step. Not for others than the rounds.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/assert.h"
#include "penstock/planted.h"
#include "server/proposer/register_calls.h"
#include "server/proposer/register_round.h"

namespace penstock {

inline bool granted(const PrepareReply& reply) { return reply.promised; }
inline bool granted(const AcceptReply& reply) { return reply.accepted; }

template <class Reply>
IndexMask grants(const RegisterCalls<Reply>& calls) {
  return calls.where([](const Reply& reply) { return granted(reply); });
}

// The smallest counter that a majority of each list would promise; nullopt: too few have answered.
template <class Reply>
std::optional<std::uint64_t> demanded(const RegisterCalls<Reply>& calls, Ballot ballot) {
  const Quorum& quorum = calls.group().set.quorum;
  std::uint64_t counter = 0;
  for (const IndexMask list : {quorum.replicas, quorum.joint}) {
    if (list.empty()) continue;
    boost::container::static_vector<std::uint64_t, limits::kReplicasMax> demands;
    for (std::size_t i = 0; i < calls.group().size(); ++i) {
      const auto& answer = calls.answer(i);
      if (!list.has(i) || !answer || !*answer) continue;
      const Reply& reply = answer->value();
      demands.push_back(granted(reply) ? ballot.counter : reply.demand_ballot.counter);
    }
    const std::size_t needed = majority(list.count());
    if (demands.size() < needed) return std::nullopt;
    std::sort(demands.begin(), demands.end());
    const std::size_t nth = holds(Rule::majority_demand) ? needed : demands.size();
    PENSTOCK_ASSERT(nth > 0 && nth <= demands.size());
    counter = std::max(counter, demands[nth - 1]);
  }
  return counter;
}

// No further answer can change how the step ends. `held` replicas count as grants.
template <class Reply>
bool decided(const RegisterCalls<Reply>& calls, IndexMask held) {
  const RegisterGroup& group = calls.group();
  const IndexMask yes = grants(calls) | held;
  if (group.majority(yes)) return true;
  if (!calls.failed_with(Errc::stale_bucket).empty()) return true;
  if (group.majority(yes | (group.all() - calls.answered()))) return false;
  // R12: a replica of a newer epoch ends a round only when it is missing for a majority: a map that
  // reached a few volumes and never counted must not hold up the others.
  if (!calls.failed_with(Errc::stale_epoch).empty()) return true;
  return group.majority(calls.succeeded() | held);
}

template <class Reply>
RoundEnd end_of(const RegisterCalls<Reply>& calls, Ballot ballot, IndexMask held,
                BallotSource* ballots) {
  if (calls.group().majority(grants(calls) | held)) return RoundEnd::majority;
  if (!calls.failed_with(Errc::stale_bucket).empty()) return RoundEnd::stale_bucket;
  // R12: a newer epoch ends the round, even one that is only on its way: not all have it yet.
  const auto other_epoch =
      calls.failed_with(Errc::stale_epoch) | calls.failed_with(Errc::epoch_behind);
  if (!other_epoch.empty()) return RoundEnd::stale_epoch;
  const auto counter = demanded(calls, ballot);
  if (counter && ballots != nullptr) ballots->demand(*counter);
  const IndexMask refused = calls.where([](const Reply& reply) { return !granted(reply); });
  return refused.empty() ? RoundEnd::no_quorum : RoundEnd::refused;
}

// Without a majority: may those that have not answered, or only that they had no time, give one?
template <class Reply>
bool is_silent(const RegisterCalls<Reply>& calls, IndexMask held) {
  const RegisterGroup& group = calls.group();
  const IndexMask silent = (group.all() - calls.answered()) | calls.failed_with(Errc::timeout);
  return group.majority(grants(calls) | held | silent);
}

// What each volume said, for the log and the operator.
template <class Reply>
Error no_quorum_error(const RegisterCalls<Reply>& calls) {
  std::string context = "no quorum:";
  bool overloaded = false;
  for (std::size_t i = 0; i < calls.group().size(); ++i) {
    const auto& answer = calls.answer(i);
    if (answer && *answer) continue;
    context += " volume " + std::to_string(calls.group().set.volumes[i].value) + " ";
    context += answer ? to_string(answer->error().code) : std::string_view("silent");
    overloaded |= answer && answer->error().code == Errc::overloaded;
  }
  return fail(overloaded ? Errc::overloaded : Errc::unavailable, std::move(context));
}

template <class Reply>
Error error_of(RoundEnd end, const RegisterCalls<Reply>& calls) {
  switch (end) {
    case RoundEnd::stale_bucket:
      return fail(Errc::stale_bucket, "the bucket has changed");
    case RoundEnd::stale_epoch:
      return fail(Errc::unavailable, "the register group has changed");
    case RoundEnd::refused:
      return fail(Errc::unavailable, "other rounds are under way");
    default:
      return no_quorum_error(calls);
  }
}

}  // namespace penstock
