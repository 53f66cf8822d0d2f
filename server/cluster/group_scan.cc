#include "server/cluster/group_scan.h"

#include <algorithm>

#include "server/cluster/fan_out.h"

namespace penstock {
namespace {
using Answers = FanOut<ScanReply>::Answers;

struct Asked {
  ReplicaSet set;
  std::vector<std::shared_ptr<VolumeClient>> clients;  // by replica; null = unknown
  ReplicaMask known = 0;
  ReplicaMask awaited = 0;  // not suspect; all that are known if those are no quorum
};

bool has(ReplicaMask mask, std::size_t replica) { return ((mask >> replica) & 1) != 0; }

Asked replicas_to_ask(const Membership& membership, ReplicaSet set) {
  Asked asked;
  asked.set = std::move(set);
  for (std::size_t i = 0; i < asked.set.volumes.size(); ++i) {
    const VolumeId id = asked.set.volumes[i];
    asked.clients.push_back(membership.volume(id));
    if (!asked.clients.back()) continue;
    asked.known |= ReplicaMask{1} << i;
    if (!membership.suspect(id)) asked.awaited |= ReplicaMask{1} << i;
  }
  if (!asked.set.quorum.reached(asked.awaited)) asked.awaited = asked.known;
  return asked;
}

// The replica that gives summaries: the turn-th of those that are awaited.
std::size_t summary_replica(const Asked& asked, std::size_t turn) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < asked.clients.size(); ++i) {
    if (has(asked.awaited, i)) order.push_back(i);
  }
  return order[turn % order.size()];
}

Task<ScanReply> scan_volume(Membership& membership, std::shared_ptr<VolumeClient> volume,
                            std::shared_ptr<const ScanRequest> request, Deadline deadline) {
  auto reply = co_await volume->scan(std::move(request), deadline);
  const bool silent = !reply && (reply.error().code == Errc::timeout ||
                                 reply.error().code == Errc::unavailable);
  membership.report(volume->id(), !silent);
  co_return reply;
}

ReplicaMask answered(const Answers& answers) {
  ReplicaMask mask = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] && *answers[i]) mask |= ReplicaMask{1} << i;
  }
  return mask;
}

// Replicas that are known to stay without a reply.
ReplicaMask failed(const Answers& answers) {
  ReplicaMask mask = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] && !*answers[i]) mask |= ReplicaMask{1} << i;
  }
  return mask;
}

Task<ScanReply> nobody() { co_return fail(Errc::unavailable, "the volume is not known"); }

FanOut<ScanReply> ask(Membership& membership, const Asked& asked, const ScanRequest& request,
                      std::size_t summaries, Executor executor, Deadline deadline) {
  auto full = std::make_shared<ScanRequest>(request);
  auto bare = std::make_shared<ScanRequest>(request);
  full->summaries = true;
  bare->summaries = false;
  bare->payloads = false;
  FanOut<ScanReply> calls;
  for (std::size_t i = 0; i < asked.clients.size(); ++i) {
    const auto& client = asked.clients[i];
    calls.start(executor, client ? scan_volume(membership, client, i == summaries ? full : bare,
                                               deadline)
                                 : nobody());
  }
  return calls;
}

// A majority with the summaries among them, then those that are awaited, but not for long.
Task<> wait_for_replies(FanOut<ScanReply>& calls, const Asked& asked, std::size_t summaries,
                        Clock& clock) {
  const Quorum quorum = asked.set.quorum;
  const ReplicaMask awaited = asked.awaited;
  FanOut<ScanReply>::Enough usable = [quorum, summaries](const Answers& answers) {
    return quorum.reached(answered(answers)) && answers[summaries].has_value();
  };
  CO_CHECK(co_await calls.wait(std::move(usable)));
  FanOut<ScanReply>::Enough complete = [awaited](const Answers& answers) {
    return (awaited & ~(answered(answers) | failed(answers))) == 0;
  };
  co_return co_await calls.wait(std::move(complete), clock, clock.boot() + limits::kReadPatience);
}

// Errors: stale_bucket if any replica says so; unavailable below a majority.
Result<MergeInput> collect(Answers answers, const Quorum& quorum) {
  for (const auto& answer : answers) {
    if (answer && !*answer && answer->error().code == Errc::stale_bucket) return answer->error();
  }
  if (!quorum.reached(answered(answers))) {
    return fail(Errc::unavailable, "a list needs a majority of each register group");
  }
  MergeInput input;
  input.quorum = quorum;
  for (auto& answer : answers) {
    auto& reply = input.replies.emplace_back();
    if (answer && *answer) reply = std::move(*answer).value();
  }
  return input;
}
}  // namespace

Task<MergeInput> scan_group(Membership& membership, Clock& clock, GroupScan scan,
                            Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  for (std::size_t attempt = 0;; ++attempt) {
    const auto map = membership.map();
    CO_TRY(set, replicas_of(*map, scan.share.group));
    const Asked asked = replicas_to_ask(membership, std::move(set));
    if (!asked.set.quorum.reached(asked.known)) {
      co_return fail(Errc::unavailable, "too few replicas of a register group are known");
    }
    scan.request.round.group = scan.share.group;
    scan.request.round.epoch = asked.set.epoch;
    scan.request.partition_mask = scan.share.partition_mask;
    const std::size_t summaries = summary_replica(asked, scan.summary_turn + attempt);
    const Deadline until = std::min(deadline, Deadline(clock.boot() + limits::kScanCall));
    auto calls = ask(membership, asked, scan.request, summaries, executor, until);
    CO_CHECK(co_await wait_for_replies(calls, asked, summaries, clock));
    CO_TRY(input, collect(calls.take(), asked.set.quorum));
    if (input.replies[summaries]) {
      input.summary_replica = summaries;
      input.start = scan.request.start;
      input.delimiter = scan.request.delimiter;
      input.prefix_bytes = scan.request.prefix.size();
      co_return input;
    }
    if (attempt >= asked.clients.size() || clock.boot() >= deadline) {
      co_return fail(Errc::unavailable, "no replica of a register group gave summaries");
    }
  }
}

}  // namespace penstock
