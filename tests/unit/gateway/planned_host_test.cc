#include "gateway/planned_host.h"

#include <doctest/doctest.h>

#include "penstock/hex_id.h"
#include "penstock/limits.h"
#include "tests/fake/code_of.h"

namespace penstock {
namespace {

ClusterMap three_hosts() {
  std::vector<MapVolume> volumes;
  for (std::uint64_t i = 0; i < 6; ++i) {
    MapVolume volume;
    volume.id = VolumeId{100 + i};
    volume.name = "v" + std::to_string(i);
    volume.host = "h" + std::to_string(i / 2);
    volume.zone = i < 4 ? "a" : "";
    volume.address = "10.0.0." + std::to_string(i / 2) + ":9200";
    volumes.push_back(volume);
  }
  return make_map(ClusterId{1, 2}, volumes, 4).value();
}

TEST_CASE("a planned host is a name with what differs from the usual") {
  const PlannedHost plain = parse_planned_host("h7").value();
  CHECK(plain.name == "h7");
  CHECK(plain.volumes == 1);
  CHECK(plain.weight == 1);
  const PlannedHost full = parse_planned_host("h7,zone=z,volumes=4,weight=2.5,size=1.5T").value();
  CHECK(full.zone == "z");
  CHECK(full.volumes == 4);
  CHECK(full.weight == 2.5);
  CHECK(full.size_bytes == 1536 * limits::kGiB);
  CHECK(parse_planned_host("h,size=3G").value().size_bytes == 3 * limits::kGiB);
  CHECK(parse_planned_host("h,size=7").value().size_bytes == 7);
}

TEST_CASE("what makes no sense is refused with the word") {
  for (const char* text : {"", ",zone=a", "zone=a", "h,colour=red", "h,volumes=0", "h,volumes=x",
                           "h,volumes=1001", "h,weight=0", "h,weight=nan", "h,size=-1", "h,zone",
                           "h,size=T", "h,volumes=", "h,zone=a,zone=b"}) {
    CAPTURE(text);
    CHECK(code_of(parse_planned_host(text)) == Errc::invalid);
  }
  CHECK(parse_planned_host("h,volumes=0").error().context.find("volumes=0") != std::string::npos);
}

TEST_CASE("planned volumes have ids that the map does not have") {
  ClusterMap map = three_hosts();
  const PlannedHost host = parse_planned_host("new,volumes=3,weight=2").value();
  const auto first = planned_volumes(map, host);
  REQUIRE(first.size() == 3);
  for (const MapVolume& volume : first) map.volumes.push_back(volume);
  for (const MapVolume& volume : planned_volumes(map, host)) {
    CHECK(map.find(volume.id) == nullptr);
    CHECK(volume.host == "new");
    CHECK(volume.weight == 2);
  }
}

TEST_CASE("a name means a volume, a host, an address or a zone") {
  const ClusterMap map = three_hosts();
  CHECK(volumes_named(map, "v3").value() == std::set<VolumeId>{VolumeId{103}});
  CHECK(volumes_named(map, hex_id(104)).value() == std::set<VolumeId>{VolumeId{104}});
  CHECK(volumes_named(map, "h1").value() == std::set<VolumeId>{VolumeId{102}, VolumeId{103}});
  CHECK(volumes_named(map, "10.0.0.2:9200").value().size() == 2);
  CHECK(volumes_named(map, "a").value().size() == 4);
  CHECK(code_of(volumes_named(map, "")) == Errc::not_found);
  CHECK(code_of(volumes_named(map, "v9")) == Errc::not_found);
}

TEST_CASE("a layout is K+M, within what its domains can promise") {
  const LayoutPolicy wide = parse_layout("8+4", 12).value();
  CHECK(wide.k == 8);
  CHECK(wide.m == 4);
  CHECK(wide.replicas == 7);
  CHECK(parse_layout("3+2", 6).value().unit_bytes == limits::kPieceBytes);
  for (const char* text : {"", "4", "4+", "+2", "4+2+1", "x+2", "0+2", "4+3", "99+2"}) {
    CAPTURE(text);
    CHECK(code_of(parse_layout(text, 6)) == Errc::invalid);
  }
}

}  // namespace
}  // namespace penstock
