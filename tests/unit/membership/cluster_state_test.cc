#include "server/membership/cluster_state.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace penstock {
namespace {

// `per_host` volumes on each of `hosts` hosts.
ClusterMap map_of(std::size_t hosts, std::size_t per_host) {
  std::vector<MapVolume> volumes;
  for (std::size_t i = 0; i < hosts * per_host; ++i) {
    MapVolume volume;
    volume.id = VolumeId{100 + i};
    volume.name = "v" + std::to_string(i);
    volume.address = "10.0.0." + std::to_string(i / per_host) + ":9200";
    volume.host = "h" + std::to_string(i / per_host);
    volumes.push_back(std::move(volume));
  }
  return make_map(ClusterId{1, 2}, std::move(volumes), 16).value();
}

ClusterState state_of(const ClusterMap& map, const std::set<std::size_t>& lost,
                      const std::set<std::size_t>& full = {}) {
  std::vector<VolumeFinding> findings;
  for (std::size_t i = 0; i < map.volumes.size(); ++i) {
    VolumeFinding finding;
    finding.entry = &map.volumes[i];
    finding.status.state = VolumeStatus::State::open;
    finding.suspect = lost.contains(i);
    finding.status.full = full.contains(i);
    findings.push_back(finding);
  }
  return judge(map, findings);
}

TEST_CASE("six hosts: one lost is degraded, two are critical, three end writes") {
  const ClusterMap map = map_of(6, 1);
  CHECK(state_lines(state_of(map, {})) == "ready\nwhole\n");
  CHECK(state_lines(state_of(map, {2})) ==
        "ready\ndegraded: 1 of 6 volumes do not answer (v2 10.0.0.2:9200)\n");
  const ClusterState two = state_of(map, {2, 4});
  CHECK(two.writable);
  CHECK(two.level == ClusterState::Level::critical);
  const ClusterState three = state_of(map, {1, 2, 4});
  CHECK_FALSE(three.writable);
  CHECK(three.groups_without_majority > 0);
  CHECK(state_lines(three).starts_with("not ready: too few volumes for writes\ncritical: 3 of 6 "));
  CHECK(state_lines(three).find("register groups have no majority") != std::string::npos);
}

TEST_CASE("volumes that hold another map answer, and serve nobody") {
  const ClusterMap map = map_of(6, 1);
  const auto state_with = [&map](std::size_t apart) {
    std::vector<VolumeFinding> findings;
    for (const MapVolume& volume : map.volumes) {
      VolumeFinding finding;
      finding.entry = &volume;
      finding.status.state = VolumeStatus::State::open;
      finding.apart = findings.size() < apart;
      findings.push_back(finding);
    }
    return judge(map, findings);
  };
  CHECK(state_lines(state_with(1)) ==
        "ready\ndegraded: 1 volumes hold another map (v0 10.0.0.0:9200)\n");
  CHECK(state_with(2).writable);
  CHECK_FALSE(state_with(3).writable);
}

TEST_CASE("a server names the volumes that are apart, but not those that do not answer at all") {
  const ClusterMap map = map_of(3, 1);
  std::vector<VolumeFinding> findings;
  for (const MapVolume& volume : map.volumes) {
    VolumeFinding finding;
    finding.entry = &volume;
    finding.status.state = VolumeStatus::State::open;
    findings.push_back(finding);
  }
  CHECK(apart_lines(findings).empty());
  findings[1].apart = findings[2].apart = true;
  findings[2].status.state = VolumeStatus::State::missing;
  CHECK(apart_lines(findings) ==
        "apart: v1 10.0.0.1:9200 holds another map than this process follows\n");
}

TEST_CASE("volumes of one host are lost together: twelve on six hosts survive two hosts") {
  const ClusterMap map = map_of(6, 2);
  CHECK(state_of(map, {0, 1}).level == ClusterState::Level::degraded);
  CHECK(state_of(map, {0, 1}).writable);
  CHECK(state_of(map, {0, 1, 2, 3}).level == ClusterState::Level::critical);
}

TEST_CASE("volumes without room are named, and too few with room end writes") {
  const ClusterMap map = map_of(6, 1);
  CHECK(state_lines(state_of(map, {}, {3})) ==
        "ready\ndegraded: 1 volumes take no new data (v3 10.0.0.3:9200)\n");
  CHECK_FALSE(state_of(map, {}, {0, 1, 2, 3, 4}).writable);
}

TEST_CASE("a slow volume is named, and is not lost") {
  const ClusterMap map = map_of(6, 1);
  std::vector<VolumeFinding> findings(6);
  for (std::size_t i = 0; i < 6; ++i) {
    findings[i].entry = &map.volumes[i];
    findings[i].status.state = VolumeStatus::State::open;
    findings[i].suspect = findings[i].slow = i < 3;
  }
  const ClusterState state = judge(map, findings);
  CHECK(state.writable);
  CHECK(state.lost.empty());
  CHECK(state_lines(state) ==
        "ready\ndegraded: 3 volumes are slow (v0 10.0.0.0:9200, v1 10.0.0.1:9200, "
        "v2 10.0.0.2:9200)\n");
}

TEST_CASE("a replacement is no whole cluster") {
  ClusterMap map = map_of(6, 1);
  map.groups.front().joint = map.groups.front().replicas;
  CHECK(state_lines(state_of(map, {})) == "ready\ndegraded: the map is being changed\n");
}

TEST_CASE("a line names a dozen volumes at most") {
  const ClusterMap map = map_of(20, 1);
  std::set<std::size_t> all;
  for (std::size_t i = 0; i < 20; ++i) all.insert(i);
  CHECK(state_lines(state_of(map, all)).find("v11 10.0.0.11:9200 and 8 more)") !=
        std::string::npos);
}

}  // namespace
}  // namespace penstock
