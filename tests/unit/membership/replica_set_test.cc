#include "server/membership/replica_set.h"

#include <doctest/doctest.h>

#include <bit>
#include <set>

#include "penstock/limits.h"
#include "penstock/volume_client.h"

namespace penstock {
namespace {

ClusterMap map_with(std::size_t groups, std::size_t replicas, std::size_t joint) {
  MapGroup group;
  group.epoch = Epoch{1};
  for (std::size_t i = 1; i <= replicas; ++i) group.replicas.push_back(VolumeId{i});
  for (std::size_t i = 1; i <= joint; ++i) group.joint.push_back(VolumeId{100 + i});
  ClusterMap map;
  map.groups.assign(groups, group);
  return map;
}
}  // namespace

TEST_CASE("a group that the map lacks, or with too many replicas, has no replica set") {
  constexpr std::size_t kMost = limits::kReplicasMax;
  CHECK(replicas_of(map_with(2, 5, 0), GroupId{1}));
  CHECK_FALSE(replicas_of(map_with(2, 5, 0), GroupId{2}));
  CHECK(replicas_of(map_with(1, kMost, kMost), GroupId{0}));
  CHECK_FALSE(replicas_of(map_with(1, kMost + 1, 0), GroupId{0}));
  CHECK_FALSE(replicas_of(map_with(1, 5, kMost + 1), GroupId{0}));
}

TEST_CASE("the groups of a bucket are told once each and hold each partition once") {
  constexpr std::uint32_t kPartitions = 64;
  const ClusterMap map = map_with(4, 5, 0);
  std::uint64_t seen = 0;
  std::set<GroupId> groups;
  for (const GroupShare& share : groups_of_bucket(map, BucketId{7}, kPartitions)) {
    CHECK(groups.insert(share.group).second);
    CHECK((seen & share.partition_mask) == 0);
    seen |= share.partition_mask;
    for (std::uint32_t partition = 0; partition < kPartitions; ++partition) {
      if ((share.partition_mask >> partition & 1) == 0) continue;
      CHECK(group_of(BucketId{7}, partition, 4) == share.group);
    }
  }
  CHECK(std::popcount(seen) == kPartitions);
}

}  // namespace penstock
