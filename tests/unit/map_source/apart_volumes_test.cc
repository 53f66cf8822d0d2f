#include "server/map_source/apart_volumes.h"

#include <doctest/doctest.h>

#include "penstock/log.h"
#include "placement/map_change.h"
#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

using Map = std::shared_ptr<const ClusterMap>;

std::string& log_lines() {
  static std::string lines;
  return lines;
}

std::size_t lines_with(std::string_view text) {
  std::size_t count = 0;
  for (auto at = log_lines().find(text); at != std::string::npos; ++count) {
    at = log_lines().find(text, at + 1);
  }
  return count;
}

struct ApartHarness {
  FakeCluster cluster;
  ApartVolumes volumes;
  BootTime now = cluster.clock.boot();

  ApartHarness() {
    log_lines().clear();
    set_log_level(LogLevel::info);
    set_log_sink([](LogLevel, std::string_view line) { log_lines() += line; });
  }
  ~ApartHarness() {
    set_log_sink(nullptr);
    set_log_level(LogLevel::error);
  }

  // What a look finds after `time`, where volume 0 holds `of_first` and the others the own map.
  std::vector<VolumeId> look(Duration time, Map of_first, bool answers = true) {
    now += time;
    std::vector<HeldMap> held;
    for (const auto& volume : cluster.volumes) held.push_back({volume->id(), cluster.map, true});
    held[0].map = std::move(of_first);
    held[0].answered = answers;
    return volumes.look(now, *cluster.map, held);
  }
  VolumeId first() const { return cluster.volumes[0]->id(); }
  // Another one of the same epoch, or of the next.
  Map other(bool later) const {
    ClusterMap next = *cluster.map;
    next.volumes[0].zone = "elsewhere";
    const Epoch before{cluster.map->epoch.value - 1};
    auto raised = past_epoch(std::move(next), later ? cluster.map->epoch : before);
    REQUIRE(raised);
    return std::make_shared<const ClusterMap>(std::move(*raised));
  }
};

constexpr Duration kMoment = std::chrono::milliseconds(500);

TEST_CASE("a volume that holds another map for long is told once, and that it is over") {
  ApartHarness h;
  bool later = false;
  SUBCASE("of the same epoch") {}
  SUBCASE("of a later one") { later = true; }
  const Map other = h.other(later);
  REQUIRE(other->epoch.value == h.cluster.map->epoch.value + (later ? 1 : 0));
  for (Duration passed{}; passed < ApartVolumes::kLong; passed += kMoment) {
    CHECK(h.look(kMoment, other) == std::vector<VolumeId>{h.first()});
  }
  CHECK(lines_with("volume_apart") == 0);
  for (int i = 0; i < 5; ++i) h.look(kMoment, other);
  CHECK(lines_with("event=volume_apart ") == 1);
  CHECK(lines_with(later ? "later map" : "another map of this epoch") == 1);
  h.look(kMoment, nullptr, false);  // no answer says nothing
  h.look(kMoment, other);
  CHECK(lines_with("event=volume_apart ") == 1);
  CHECK(h.look(kMoment, h.cluster.map).empty());
  CHECK(lines_with("event=volume_apart_over") == 1);
}

TEST_CASE("a volume that is at another map for a moment, or at an older one, is not told") {
  ApartHarness h;
  const Map other = h.other(true);
  for (int i = 0; i < 10; ++i) {
    h.look(kMoment, other);
    h.look(kMoment, h.cluster.map);
  }
  const Map older = std::exchange(h.cluster.map, other);
  for (int i = 0; i < 10; ++i) CHECK(h.look(kMoment, older).empty());
  CHECK(lines_with("volume_apart") == 0);
}

}  // namespace
}  // namespace penstock
