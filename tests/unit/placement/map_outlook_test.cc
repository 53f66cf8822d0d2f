#include "placement/map_outlook.h"

#include <doctest/doctest.h>

#include "placement/map_change.h"

namespace penstock {
namespace {

ClusterMap map_of(std::size_t hosts, std::size_t per_host, std::size_t zones,
                  const LayoutPolicy* policy = nullptr) {
  std::vector<MapVolume> volumes;
  for (std::uint64_t i = 0; i < hosts * per_host; ++i) {
    MapVolume volume;
    volume.id = VolumeId{mix_hash(100 + i)};
    volume.name = "v" + std::to_string(i);
    volume.host = "h" + std::to_string(i / per_host);
    volume.zone = "z" + std::to_string(i / per_host % zones);
    volumes.push_back(volume);
  }
  return make_map(ClusterId{1, 2}, volumes, 256, policy).value();
}

MapOutlook outlook(const ClusterMap& map, const std::set<VolumeId>& lost = {}) {
  auto made = outlook_of(map, lost);
  REQUIRE(made.has_value());
  return std::move(made).value();
}

std::set<VolumeId> first(const ClusterMap& map, std::size_t count) {
  std::set<VolumeId> ids;
  for (std::size_t i = 0; i < count; ++i) ids.insert(map.volumes[i].id);
  return ids;
}

TEST_CASE("six hosts: 4+2, two may be lost, each gets a sixth") {
  const MapOutlook whole = outlook(map_of(6, 1, 1));
  CHECK(whole.domains == 6);
  CHECK(whole.hosts_are_domains);
  CHECK(whole.zones == 1);
  CHECK(whole.k == 4);
  CHECK(whole.m == 2);
  CHECK(whole.writable);
  CHECK(whole.losses_promised == 2);
  CHECK(whole.losses_left == 2);
  CHECK_FALSE(whole.zone_survived);
  REQUIRE(whole.shares.size() == 6);
  for (const auto& [id, share] : whole.shares) CHECK(share == doctest::Approx(1.0 / 6));
}

TEST_CASE("one host with six volumes: each volume is a domain") {
  const MapOutlook whole = outlook(map_of(1, 6, 1));
  CHECK(whole.domains == 6);
  CHECK_FALSE(whole.hosts_are_domains);
  CHECK(whole.losses_promised == 2);
}

TEST_CASE("losses shrink the layout, and too many end the writes") {
  const ClusterMap map = map_of(6, 1, 1);
  const MapOutlook two = outlook(map, first(map, 2));
  CHECK(two.writable);
  CHECK(two.k == 2);
  CHECK(two.m == 2);
  CHECK(two.domains == 4);
  CHECK(two.losses_left == 0);
  CHECK(two.shares.size() == 4);
  const MapOutlook three = outlook(map, first(map, 3));
  CHECK_FALSE(three.writable);
  CHECK(three.groups_without_majority > 0);
}

TEST_CASE("a lost host of several volumes is one loss") {
  const ClusterMap map = map_of(6, 2, 1);
  CHECK(outlook(map, first(map, 2)).losses_left == 1);
  CHECK(outlook(map, first(map, 2)).domains == 5);
}

TEST_CASE("a whole zone is survived where no zone holds more than m pieces") {
  CHECK(outlook(map_of(6, 1, 3)).zone_survived);
  CHECK_FALSE(outlook(map_of(6, 1, 2)).zone_survived);
  CHECK_FALSE(outlook(map_of(12, 1, 3)).zone_survived);  // 8+3: four pieces in a zone
  LayoutPolicy wide = default_policy(12).value();
  wide.m = 4;
  CHECK(outlook(map_of(12, 1, 3, &wide)).zone_survived);
}

TEST_CASE("volumes that join take their share of new data, by weight") {
  const ClusterMap before = map_of(6, 1, 1);
  MapVolume big;
  big.id = VolumeId{7};
  big.host = "new";
  big.weight = 2;
  const ClusterMap after = add_volumes(before, {big}).value();
  const MapOutlook then = outlook(after);
  CHECK(then.domains == 7);
  CHECK(then.k == 4);
  REQUIRE(then.shares.size() == 7);
  CHECK(then.shares.at(VolumeId{7}) > then.shares.at(before.volumes[0].id));
  double all = 0;
  for (const auto& [id, share] : then.shares) all += share;
  CHECK(all == doctest::Approx(1));
}

TEST_CASE("what fits is bounded by the volume that is full first") {
  const ClusterMap map = map_of(6, 1, 1);
  const MapOutlook whole = outlook(map);
  std::map<VolumeId, std::uint64_t> room;
  for (const MapVolume& volume : map.volumes) room[volume.id] = 6'000'000;
  CHECK(bytes_that_fit(whole, room) == doctest::Approx(24e6).epsilon(0.001));
  room[map.volumes[3].id] = 3'000'000;
  CHECK(bytes_that_fit(whole, room) == doctest::Approx(12e6).epsilon(0.001));
  room.erase(map.volumes[3].id);
  CHECK(bytes_that_fit(whole, room) == 0);
}

}  // namespace
}  // namespace penstock
