#include "server/membership/map_install.h"

#include <doctest/doctest.h>

#include <set>

#include "placement/map_change.h"
#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

// The map in which a seventh volume, which is added, takes the place of the first.
std::shared_ptr<const ClusterMap> map_with_joining(FakeCluster& cluster) {
  MapVolume named;
  named.id = cluster.add_volume(VolumeId{FakeCluster::kVolumes + 1}).id();
  named.name = "joining";
  auto map = begin_replacement(*cluster.map, VolumeId{1}, std::move(named));
  REQUIRE(map);
  return std::make_shared<const ClusterMap>(std::move(*map));
}
}  // namespace

TEST_CASE("a volume that joins takes over the highest horizon and fence, whoever has them") {
  const BucketId bucket{9};
  for (std::size_t highest = 0; highest < FakeCluster::kVolumes; ++highest) {
    CAPTURE(highest);
    FakeCluster cluster;
    for (const auto& volume : cluster.volumes) {
      volume->acceptor.horizon = 10;
      volume->acceptor.fences[bucket] = BucketNumber{3};
    }
    cluster.volumes[highest]->acceptor.horizon = 20;
    cluster.volumes[highest]->acceptor.fences[bucket] = BucketNumber{5};
    const auto next = map_with_joining(cluster);
    const FakeVolume& joining = *cluster.volumes.back();
    const auto installed = cluster.run(install_map(
        next, {cluster.volumes.begin(), cluster.volumes.end()}, cluster.clock, cluster.soon()));
    REQUIRE(installed);
    CHECK(installed->reached);
    CHECK(joining.acceptor.horizon == 20);
    CHECK(joining.acceptor.fences.at(bucket) == BucketNumber{5});
  }
}

TEST_CASE("what an old round raised before its volume adopted the map is taken over") {
  const BucketId bucket{9};
  FakeCluster cluster;
  const auto next = map_with_joining(cluster);
  const FakeVolume& joining = *cluster.volumes.back();
  for (const auto& volume : cluster.volumes) {
    if (volume->id() == joining.id()) continue;
    FakeAcceptor& acceptor = volume->acceptor;
    acceptor.before_adopt = [&acceptor, bucket] {  // the last moment for a fence, or a drop
      acceptor.horizon = 20;
      acceptor.fences[bucket] = BucketNumber{5};
    };
  }
  const auto installed = cluster.run(install_map(
      next, {cluster.volumes.begin(), cluster.volumes.end()}, cluster.clock, cluster.soon()));
  REQUIRE(installed);
  CHECK(installed->reached);
  CHECK(joining.acceptor.horizon == 20);
  REQUIRE(joining.acceptor.fences.contains(bucket));
  CHECK(joining.acceptor.fences.at(bucket) == BucketNumber{5});
}

namespace {

// The next map of a cluster whose volumes stay.
ClusterMap with_next_epochs(const ClusterMap& map) {
  ClusterMap next = map;
  next.epoch = Epoch{map.epoch.value + 1};
  for (MapGroup& group : next.groups) group.epoch = Epoch{group.epoch.value + 1};
  return next;
}

bool has_majority_open(const std::vector<VolumeId>& list, const std::set<VolumeId>& closed) {
  std::size_t open = 0;
  for (const VolumeId id : list) open += closed.contains(id) ? 0 : 1;
  return open >= majority(list.size());
}
}  // namespace

TEST_CASE("a map has reached its cluster where a majority of each list adopted it, no earlier") {
  const VolumeId joining{FakeCluster::kVolumes + 1};
  int reached = 0, missed = 0;
  for (const bool joint : {false, true}) {
    for (unsigned mask = 0; mask < 1u << (FakeCluster::kVolumes + 1); ++mask) {
      std::set<VolumeId> closed;
      for (unsigned i = 0; i <= FakeCluster::kVolumes; ++i) {
        if ((mask >> i & 1) != 0) closed.insert(VolumeId{i + 1});
      }
      if (closed.size() < 2 || closed.size() > 3 || (!joint && closed.contains(joining))) continue;
      CAPTURE(joint);
      CAPTURE(mask);
      FakeCluster cluster;
      ClusterMap map = with_next_epochs(*cluster.map);
      if (joint) {
        cluster.add_volume(joining);
        MapVolume named;
        named.id = joining;
        named.name = "joining";
        map = begin_replacement(*cluster.map, VolumeId{1}, std::move(named)).value();
      }
      for (const auto& volume : cluster.volumes) {
        if (closed.contains(volume->id())) volume->acceptor.state = VolumeStatus::State::closed;
      }
      bool expected = true;
      for (const MapGroup& group : map.groups) {
        expected = expected && has_majority_open(group.replicas, closed) &&
                   (group.joint.empty() || has_majority_open(group.joint, closed));
      }
      const auto installed = cluster.run(install_map(
          std::make_shared<const ClusterMap>(map), {cluster.volumes.begin(), cluster.volumes.end()},
          cluster.clock, cluster.soon()));
      REQUIRE(installed);
      CHECK(installed->reached == expected);
      ++(expected ? reached : missed);
      // Each volume is told of once.
      CHECK(installed->adopted.size() + installed->failed.size() == cluster.volumes.size());
      for (const auto& [id, error] : installed->failed) {
        CHECK(error.code == Errc::unavailable);
        CHECK((closed.contains(id) || id == joining));
      }
      for (const VolumeId id : installed->adopted) CHECK_FALSE(closed.contains(id));
    }
  }
  CHECK(reached > 10);
  CHECK(missed > 10);
}

}  // namespace penstock
