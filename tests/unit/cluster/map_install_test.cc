#include "server/cluster/map_install.h"

#include <doctest/doctest.h>

#include "placement/map_change.h"
#include "tests/fake/fake_cluster.h"

namespace penstock {

TEST_CASE("a volume that joins takes over the highest horizon and fence, whoever has them") {
  const BucketId bucket{9};
  for (std::size_t highest = 0; highest < FakeCluster::kVolumes; ++highest) {
    CAPTURE(highest);
    FakeCluster cluster;
    for (const auto& node : cluster.nodes) {
      node->acceptor.horizon = 10;
      node->acceptor.fences[bucket] = BucketNumber{3};
    }
    cluster.nodes[highest]->acceptor.horizon = 20;
    cluster.nodes[highest]->acceptor.fences[bucket] = BucketNumber{5};
    const FakeNode& joining = cluster.add_node(VolumeId{FakeCluster::kVolumes + 1});
    MapVolume named;
    named.id = joining.id();
    named.name = "joining";
    auto map = begin_replacement(*cluster.map, VolumeId{1}, std::move(named));
    REQUIRE(map);
    auto next = std::make_shared<const ClusterMap>(std::move(*map));
    const auto installed = cluster.run(install_map(
        next, {cluster.nodes.begin(), cluster.nodes.end()}, cluster.clock, cluster.soon()));
    REQUIRE(installed);
    CHECK(installed->reached);
    CHECK(joining.acceptor.horizon == 20);
    CHECK(joining.acceptor.fences.at(bucket) == BucketNumber{5});
  }
}

}  // namespace penstock
