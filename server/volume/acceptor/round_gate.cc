#include "server/volume/acceptor/round_gate.h"

#include <algorithm>
#include <string>

#include "penstock/assert.h"
#include "penstock/planted.h"

namespace penstock {

RoundGate::RoundGate(const VolumeMeta& meta) : fences_(meta.fences) {
  for (const auto& [group, epoch] : meta.epochs) set_epoch(epoch);
}

Result<> RoundGate::check(const Round& round, BucketId bucket) const {
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

BucketNumber RoundGate::fence(BucketId bucket) const {
  const auto found = fences_.find(bucket);
  return found == fences_.end() ? BucketNumber{} : found->second;
}

void RoundGate::raise_fence(BucketId bucket, BucketNumber number) {
  auto& fence = fences_[bucket];
  fence = std::max(fence, number);
  PENSTOCK_ASSERT(fence.value > 0);
  ++changes_;
}

Result<std::vector<GroupEpoch>> RoundGate::check_epochs(
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

void RoundGate::set_epoch(const GroupEpoch& epoch) {
  if (epochs_.size() <= epoch.group.value) epochs_.resize(epoch.group.value + 1);
  GroupEpoch& own = epochs_[epoch.group.value];
  PENSTOCK_ASSERT(epoch.epoch >= own.epoch || !holds(Rule::epoch_forward));
  own = epoch;
  ++changes_;
}

}  // namespace penstock
