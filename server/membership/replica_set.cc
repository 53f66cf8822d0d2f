#include "server/membership/replica_set.h"

#include <algorithm>

#include "penstock/assert.h"
#include "penstock/limits.h"
#include "penstock/volume_client.h"

namespace penstock {
namespace {
IndexMask add_all(const std::vector<VolumeId>& list, std::vector<VolumeId>& volumes) {
  IndexMask mask;
  for (const VolumeId id : list) {
    const auto found = std::find(volumes.begin(), volumes.end(), id);
    mask.add(static_cast<std::size_t>(found - volumes.begin()));
    if (found == volumes.end()) volumes.push_back(id);
  }
  return mask;
}
GroupEpoch epoch_of(const MapGroup& entry, GroupId group) {
  return GroupEpoch{group, entry.epoch, group_digest(entry)};
}
}  // namespace

std::vector<GroupEpoch> epochs_of(const ClusterMap& map) {
  std::vector<GroupEpoch> epochs;
  epochs.reserve(map.groups.size());
  for (std::uint32_t group = 0; group < map.groups.size(); ++group) {
    epochs.push_back(epoch_of(map.groups[group], GroupId{group}));
  }
  return epochs;
}

Result<ReplicaSet> replicas_of(const ClusterMap& map, GroupId group) {
  if (group.value >= map.groups.size()) return fail(Errc::invalid, "no such register group");
  const MapGroup& entry = map.groups[group.value];
  if (entry.replicas.size() > limits::kReplicasMax || entry.joint.size() > limits::kReplicasMax) {
    return fail(Errc::invalid, "a register group with too many replicas");
  }
  ReplicaSet set;
  set.epoch = entry.epoch;
  set.digest = epoch_of(entry, group).short_digest();
  set.quorum.replicas = add_all(entry.replicas, set.volumes);
  set.quorum.joint = add_all(entry.joint, set.volumes);
  PENSTOCK_ASSERT(set.volumes.size() <= 2 * limits::kReplicasMax);
  return set;
}

std::vector<GroupShare> groups_of_bucket(const ClusterMap& map, BucketId bucket,
                                         std::uint32_t partitions) {
  std::vector<GroupShare> shares;
  const auto group_count = static_cast<std::uint32_t>(map.groups.size());
  for (std::uint32_t partition = 0; partition < partitions; ++partition) {
    const GroupId group = group_of(bucket, partition, group_count);
    const auto at =
        std::lower_bound(shares.begin(), shares.end(), group,
                         [](const GroupShare& share, GroupId id) { return share.group < id; });
    PENSTOCK_ASSERT(partition < 64);
    const auto bit = std::uint64_t{1} << partition;
    if (at != shares.end() && at->group == group) {
      at->partition_mask |= bit;
    } else {
      shares.insert(at, GroupShare{group, bit});
    }
  }
  return shares;
}

GroupShare group_of_key(const ClusterMap& map, BucketId bucket, std::uint32_t partitions,
                        std::string_view key) {
  const auto partition = partition_of(bucket, key, partitions);
  const auto group_count = static_cast<std::uint32_t>(map.groups.size());
  return {group_of(bucket, partition, group_count), std::uint64_t{1} << partition};
}

}  // namespace penstock
