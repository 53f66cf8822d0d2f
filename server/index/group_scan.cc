#include "server/index/group_scan.h"

#include <algorithm>

#include "penstock/fan_out.h"

namespace penstock {
namespace {
// How long a majority may take before the others are asked, too. A page costs a volume 1 or 2 ms.
constexpr std::chrono::milliseconds kPatience{50};

using Calls = FanOut<ScanReply>;  // by replica

struct Asked {
  ReplicaSet set;
  std::vector<std::shared_ptr<VolumeClient>> clients;  // by replica; null = unknown
  IndexMask known;
  IndexMask awaited;  // not suspect; all that are known if those are no quorum
};

Asked replicas_to_ask(const Membership& membership, ReplicaSet set) {
  Asked asked;
  asked.set = std::move(set);
  for (std::size_t i = 0; i < asked.set.volumes.size(); ++i) {
    const VolumeId id = asked.set.volumes[i];
    asked.clients.push_back(membership.volume(id));
    if (!asked.clients.back()) continue;
    asked.known.add(i);
    if (!membership.suspect(id)) asked.awaited.add(i);
  }
  if (!asked.set.quorum.reached(asked.awaited)) asked.awaited = asked.known;
  return asked;
}

// The replica that gives summaries: the turn-th of those that are awaited.
std::size_t summary_replica(const Asked& asked, std::size_t turn) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < asked.clients.size(); ++i) {
    if (asked.awaited.has(i)) order.push_back(i);
  }
  return order[turn % order.size()];
}

Task<ScanReply> scan_volume(Membership& membership, std::shared_ptr<VolumeClient> volume,
                            std::shared_ptr<const ScanRequest> request, Deadline deadline) {
  auto reply = co_await volume->scan(std::move(request), deadline);
  const bool silent =
      !reply && (reply.error().code == Errc::timeout || reply.error().code == Errc::unavailable);
  membership.report(volume->id(), !silent);
  co_return reply;
}

Task<ScanReply> nobody() { co_return fail(Errc::unavailable, "the volume is not known"); }

// The questions of one scan of one group, in the order they are put.
class Questions {
 public:
  Questions(Membership& membership, Asked asked, const ScanRequest& request, std::size_t summaries,
            Executor executor, Deadline deadline)
      : membership_(membership),
        asked_(std::move(asked)),
        summaries_(summaries),
        executor_(std::move(executor)),
        deadline_(deadline),
        calls_(asked_.clients.size()),
        full_(std::make_shared<ScanRequest>(request)),
        bare_(std::make_shared<ScanRequest>(request)) {
    full_->summaries = true;
    bare_->summaries = false;
    bare_->payloads = false;
  }

  // A majority, the one that gives summaries first.
  void ask_majority() {
    put(summaries_);
    for (std::size_t step = 1; step < asked_.clients.size(); ++step) {
      const std::size_t i = (summaries_ + step) % asked_.clients.size();
      if (asked_.set.quorum.reached(put_)) return;
      if (asked_.awaited.has(i)) put(i);
    }
  }
  void ask_all() {
    for (std::size_t i = 0; i < asked_.clients.size(); ++i) put(i);
  }

  // Until all that were asked have answered, or one has failed, or `until`. True: a majority has
  // answered, with summaries.
  Task<bool> wait_for_majority(Clock& clock, BootTime until) {
    auto one_failed = [this] { return !calls_.failed().empty(); };
    co_await calls_.wait(std::move(one_failed), clock, until);
    co_return usable() && calls_.failed().empty();
  }
  // A majority with the summaries among them, then those that are awaited, but not for long. A
  // replica that is silent while the others have answered is given up: another one is asked for
  // summaries then.
  Awaitable<void> wait_for_all(Clock& clock) {
    const BootTime patient = clock.boot() + limits::kNoProgress;
    auto enough = [this] { return usable(); };
    co_await calls_.wait(std::move(enough), clock, std::min<BootTime>(patient, deadline_));
    if (!usable() && without_summaries()) {
      membership_.report_stalled(asked_.set.volumes[summaries_]);
      co_return;
    }
    auto either = [this] { return usable() || without_summaries(); };
    co_await calls_.wait(std::move(either), clock, deadline_);
    auto complete = [this] { return (asked_.awaited - calls_.answered()).empty(); };
    const BootTime soon = clock.boot() + limits::kReadPatience;
    co_await calls_.wait(std::move(complete), clock, soon);
  }
  Calls& calls() { return calls_; }

 private:
  void put(std::size_t replica) {
    if (put_.has(replica)) return;
    put_.add(replica);
    const auto& client = asked_.clients[replica];
    const auto& request = replica == summaries_ ? full_ : bare_;
    calls_.start_at(executor_, replica,
                    client ? scan_volume(membership_, client, request, deadline_) : nobody());
  }
  bool usable() const {
    return asked_.set.quorum.reached(calls_.succeeded()) && calls_.answered().has(summaries_);
  }
  bool without_summaries() const {
    return asked_.set.quorum.reached(calls_.succeeded() - IndexMask::of(summaries_));
  }

  Membership& membership_;
  const Asked asked_;
  const std::size_t summaries_;
  const Executor executor_;
  const Deadline deadline_;
  Calls calls_;
  IndexMask put_;
  const std::shared_ptr<ScanRequest> full_;
  const std::shared_ptr<ScanRequest> bare_;
};

// Errors: stale_bucket if any replica says so; below a majority stale_epoch if one is at another
// epoch (R12), else unavailable.
Result<MergeInput> collect(Calls& calls, const Quorum& quorum) {
  const bool reached = quorum.reached(calls.succeeded());
  Calls::Answers answers = calls.take();
  for (const auto& answer : answers) {
    if (answer && !*answer && answer->error().code == Errc::stale_bucket) return answer->error();
  }
  const auto at_other_epoch = [](const auto& answer) {
    return answer && !*answer &&
           (answer->error().code == Errc::stale_epoch ||
            answer->error().code == Errc::epoch_behind);
  };
  if (!reached) {
    const auto other = std::find_if(answers.begin(), answers.end(), at_other_epoch);
    if (other != answers.end()) return fail(Errc::stale_epoch, (*other)->error().context);
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
    scan.request.round.digest = asked.set.digest;
    scan.request.partition_mask = scan.share.partition_mask;
    const std::size_t summaries = summary_replica(asked, scan.summary_turn + attempt);
    const Deadline until = deadline.capped(clock.boot() + limits::kScanCall);
    const Quorum quorum = asked.set.quorum;
    const std::size_t replicas = asked.clients.size();
    Questions questions(membership, asked, scan.request, summaries, executor, until);
    bool enough = false;
    if (!scan.wide && scan.request.fence.value == 0) {
      questions.ask_majority();
      CO_TRY(majority, co_await questions.wait_for_majority(clock, clock.boot() + kPatience));
      enough = majority;
    }
    if (!enough) {
      questions.ask_all();
      co_await questions.wait_for_all(clock);
    }
    CO_TRY(input, collect(questions.calls(), quorum));
    if (input.replies[summaries]) {
      input.summary_replica = summaries;
      input.start = scan.request.start;
      input.delimiter = scan.request.delimiter;
      input.prefix_bytes = scan.request.prefix.size();
      co_return input;
    }
    if (attempt >= replicas || clock.boot() >= deadline) {
      co_return fail(Errc::unavailable, "no replica of a register group gave summaries");
    }
  }
}

}  // namespace penstock
