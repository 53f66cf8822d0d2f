#include "server/volume/acceptor/acceptor_state.h"

#include "penstock/assert.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

constexpr auto kStep = static_cast<std::uint64_t>(Duration(limits::kCeilingStep).count());
constexpr auto kFuture = static_cast<std::uint64_t>(Duration(limits::kFutureBound).count());

std::uint64_t add(std::uint64_t counter, std::uint64_t step) {
  return counter > ~step ? ~std::uint64_t{0} : counter + step;  // counters come from the network
}

}  // namespace

AcceptorState::AcceptorState(const VolumeMeta& meta, std::size_t promise_slots)
    : promises_(promise_slots),
      floor_(holds(Rule::restart_floor) ? meta.ceiling : 0),
      ceiling_(meta.ceiling),
      horizon_(meta.horizon),
      accepted_max_(meta.ceiling),
      fences_(meta.fences) {
  for (const auto& [group, epoch] : meta.epochs) set_epoch(epoch);
}

Result<> AcceptorState::gate(const Round& round, BucketId bucket) const {
  // R12: only rounds of this very epoch. Who is told `stale_epoch` looks for a newer map; a volume
  // that is behind the round says so, and others may make up its majority.
  const std::size_t group = round.group.value;
  const GroupEpoch* own = group < epochs_.size() ? &epochs_[group] : nullptr;
  const Epoch epoch = own == nullptr ? Epoch{} : own->epoch;
  const bool known = epoch == round.epoch && epoch.value != 0;
  const bool same = known && (own->short_digest() == round.digest || !holds(Rule::epoch_digest));
  if (!same && holds(Rule::epoch)) {
    const bool behind = epoch < round.epoch;
    return fail(behind ? Errc::epoch_behind : Errc::stale_epoch,
                "group " + std::to_string(group) + " is at epoch " + std::to_string(epoch.value) +
                    (epoch == round.epoch ? " with other members" : "") + ", the round at " +
                    std::to_string(round.epoch.value));
  }
  if (!round.pass_fence && !fences_.empty()) {
    const auto fence = fences_.find(bucket);
    if (fence != fences_.end() && round.bucket_number <= fence->second && holds(Rule::fence)) {
      return fail(Errc::stale_bucket,
                  "bucket number " + std::to_string(round.bucket_number.value) + " is fenced off");
    }
  }
  return {};
}

Verdict AcceptorState::prepare(std::uint64_t key_hash, Ballot ballot, bool follows, Ballot accepted,
                               WallTime now) {
  const Ballot promised = promises_.get(key_hash);
  if (ballot.counter <= limit() || ballot < promised) return Verdict::refuse;
  if (ballot < accepted || (ballot == accepted && ballot != promised)) return Verdict::refuse;
  if (!follows && holds(Rule::future_bound)) {
    const auto clock =
        static_cast<std::uint64_t>(std::max<std::int64_t>(now.time_since_epoch().count(), 0));
    if (ballot.counter > add(std::max({clock, ceiling_, horizon_}), kFuture)) {
      return Verdict::refuse_future;
    }
  }
  if (ballot.counter > ceiling_) return Verdict::raise_ceiling;
  PENSTOCK_ASSERT(ballot.counter > limit() && ballot >= promised);
  promises_.put(key_hash, ballot);
  return Verdict::pass;
}

Verdict AcceptorState::accept(std::uint64_t key_hash, Ballot ballot, Ballot accepted) {
  if (ballot == accepted) return Verdict::repeat;
  const Ballot promised = promises_.get(key_hash);
  if (ballot < promised && holds(Rule::promise)) return Verdict::refuse;
  if (ballot.counter <= limit() || ballot < accepted) return Verdict::refuse;
  PENSTOCK_ASSERT(ballot > accepted && (ballot >= promised || !holds(Rule::promise)));
  promises_.put(key_hash, ballot);
  accepted_max_ = std::max(accepted_max_, ballot.counter);
  return Verdict::pass;
}

Verdict AcceptorState::accept_blind(std::uint64_t key_hash, Ballot ballot) {
  if (ballot.counter <= accepted_max_) return Verdict::refuse;
  return accept(key_hash, ballot, Ballot{});
}

void AcceptorState::accepted(std::uint64_t key_hash, Ballot ballot) {
  PENSTOCK_ASSERT(ballot.counter <= accepted_max_);  // it passed accept()
  promises_.settle(key_hash, ballot);
}

Ballot AcceptorState::demand(std::uint64_t key_hash, Ballot accepted) const {
  const Ballot highest = std::max(promises_.get(key_hash), accepted);
  return Ballot{add(std::max(highest.counter, limit()), 1), 0, 0};
}

std::uint64_t AcceptorState::ceiling_for(std::uint64_t counter) { return add(counter, kStep); }

bool AcceptorState::ceiling_is_near(std::uint64_t counter) const {
  return add(counter, kStep / 2) > ceiling_;
}

BucketNumber AcceptorState::fence(BucketId bucket) const {
  const auto found = fences_.find(bucket);
  return found == fences_.end() ? BucketNumber{} : found->second;
}

void AcceptorState::raise_fence(BucketId bucket, BucketNumber number) {
  auto& fence = fences_[bucket];
  fence = std::max(fence, number);
  PENSTOCK_ASSERT(fence.value > 0);
}

Result<std::vector<GroupEpoch>> AcceptorState::check_epochs(
    const std::vector<GroupEpoch>& wanted) const {
  std::vector<GroupEpoch> changed;
  for (const GroupEpoch& epoch : wanted) {
    const std::string name = "epoch of group " + std::to_string(epoch.group.value);
    if (epoch.group.value >= kGroupsMax || epoch.epoch.value == 0) {
      return fail(Errc::invalid, name);
    }
    const GroupEpoch own =
        epoch.group.value < epochs_.size() ? epochs_[epoch.group.value] : GroupEpoch{};
    if (epoch.epoch < own.epoch && holds(Rule::epoch_forward)) {
      return fail(Errc::stale_epoch, name + " would go back from " +
                                         std::to_string(own.epoch.value) + " to " +
                                         std::to_string(epoch.epoch.value));
    }
    if (epoch.epoch == own.epoch && epoch.digest != own.digest && holds(Rule::epoch_digest)) {
      return fail(Errc::stale_epoch, name + " is known with another digest");
    }
    if (epoch.epoch != own.epoch) changed.push_back(epoch);
  }
  return changed;
}

void AcceptorState::set_epoch(const GroupEpoch& epoch) {
  if (epochs_.size() <= epoch.group.value) epochs_.resize(epoch.group.value + 1);
  GroupEpoch& own = epochs_[epoch.group.value];
  PENSTOCK_ASSERT(epoch.epoch >= own.epoch || !holds(Rule::epoch_forward));
  own = epoch;
}

}  // namespace penstock
