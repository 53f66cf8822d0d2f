// The replicas of one register group and what a majority of them is (R1, R12): of the one list, or
// during a change of both. Pure values.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "penstock/index_mask.h"
#include "penstock/limits.h"
#include "penstock/planted.h"
#include "penstock/volume_upkeep.h"
#include "placement/cluster_map.h"

namespace penstock {

static_assert(2 * limits::kReplicasMax <= IndexMask::kMax);

// Replicas are told by their index in ReplicaSet::volumes.
struct Quorum {
  IndexMask replicas{};
  IndexMask joint{};  // the new list during a change, else empty
  bool reached(IndexMask answered) const {
    const bool both = joint.empty() || more_than_half(answered, joint);
    return more_than_half(answered, replicas) && (both || !holds(Rule::joint_majority));
  }

 private:
  static bool more_than_half(IndexMask answered, IndexMask list) {
    return (answered & list).count() * 2 > list.count();
  }
};

struct ReplicaSet {
  Epoch epoch;
  std::uint64_t digest = 0;       // what the epoch stands for: Round::digest
  std::vector<VolumeId> volumes;  // both lists, each volume once
  Quorum quorum;
};

// The epochs of all groups of a map, as acceptors take them.
std::vector<GroupEpoch> epochs_of(const ClusterMap& map);

// Errors: invalid - the map has no such group, or one with too many replicas.
Result<ReplicaSet> replicas_of(const ClusterMap& map, GroupId group);

// The groups that hold a bucket, ascending, each with the partitions (bit p) that it holds.
struct GroupShare {
  GroupId group;
  std::uint64_t partition_mask = 0;
};
std::vector<GroupShare> groups_of_bucket(const ClusterMap& map, BucketId bucket,
                                         std::uint32_t partitions);
// The one group that holds `key`.
GroupShare group_of_key(const ClusterMap& map, BucketId bucket, std::uint32_t partitions,
                        std::string_view key);

}  // namespace penstock
