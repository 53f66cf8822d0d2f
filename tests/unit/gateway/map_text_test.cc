#include "gateway/map_text.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using Json = nlohmann::json;

ClusterMap hosts(std::size_t count, std::size_t zones) {
  std::vector<MapVolume> volumes;
  for (std::uint64_t i = 0; i < count; ++i) {
    MapVolume volume;
    volume.id = VolumeId{100 + i};
    volume.name = "v" + std::to_string(i);
    volume.address = "10.0.0." + std::to_string(i) + ":9200";
    volume.host = "h" + std::to_string(i);
    if (zones > 0) volume.zone = "z" + std::to_string(i % zones);
    volumes.push_back(volume);
  }
  return make_map(ClusterId{1, 2}, volumes, 16).value();
}

MapView view_of(const ClusterMap& map, const std::set<VolumeId>& lost = {}) {
  return MapView{map, outlook_of(map, lost).value(), {}};
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST_CASE("a map is shown with places, shares and its promise") {
  const ClusterMap map = hosts(6, 3);
  const std::string text = show_text(view_of(map));
  CHECK(has(text, "6 volumes, 6 hosts, layout 4+2, 5 replicas"));
  CHECK(has(text, "16.7 %"));
  CHECK(has(text, "10.0.0.3:9200 on h3, zone z0"));
  CHECK(has(text, "Any 2 of the 6 hosts may be lost; any one of the 3 zones, too."));
}

TEST_CASE("a zone that is not survived is told of") {
  const ClusterMap map = hosts(12, 3);
  CHECK(has(show_text(view_of(map)),
            "Any 3 of the 12 hosts may be lost; not a whole one of the 3 zones."));
  CHECK(has(show_text(view_of(hosts(6, 0))), "Any 2 of the 6 hosts may be lost.\n"));
}

TEST_CASE("programs get the map itself, its digest and the outlook") {
  const ClusterMap map = hosts(6, 0);
  const Json json = Json::parse(show_json(view_of(map)));
  CHECK(json["epoch"] == 1);
  CHECK(json["volumes"].size() == 6);
  CHECK(json["digest"].get<std::string>().size() == 64);
  CHECK(json["outlook"]["losses_survived"] == 2);
  CHECK(json["outlook"]["shares"].size() == 6);
  CHECK_FALSE(json["outlook"].contains("room_bytes"));
}

TEST_CASE("two maps are shown side by side") {
  const ClusterMap map = hosts(6, 0);
  const MapView now = view_of(map);
  MapView then = view_of(map, {VolumeId{100}, VolumeId{101}});
  then.room = {{VolumeId{102}, 1 << 30}};
  const std::string text = compare_text(&now, then);
  CHECK(has(text, "layout of new objects      4+2              2+2\n"));
  CHECK(has(text, "further losses survived    2                0\n"));
  CHECK(has(text, "No further loss is survived for certain."));
  CHECK(has(text, "0.0 %"));
  CHECK(has(compare_text(nullptr, now), "-"));
  const Json json = Json::parse(compare_json(&now, then));
  CHECK(json["now"]["layout"]["k"] == 4);
  CHECK(json["then"]["layout"]["k"] == 2);
  CHECK(json["then"]["room_bytes"] == 0);
}

TEST_CASE("bytes are shown in the unit that fits") {
  CHECK(bytes_text(0) == "0 bytes");
  CHECK(bytes_text(1023) == "1023 bytes");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(std::uint64_t{3} << 40) == "3.0 TiB");
}

}  // namespace
}  // namespace penstock
