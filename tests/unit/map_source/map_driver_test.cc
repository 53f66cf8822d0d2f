#include "server/map_source/map_driver.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"
#include "tests/fake/fake_cluster.h"
#include "tests/fake/fake_map_source.h"

namespace penstock {
namespace {

using Map = std::shared_ptr<const ClusterMap>;

struct DriverHarness {
  FakeCluster cluster;
  FakeMapSource source{cluster.clock};

  DriverHarness() { source.set(cluster.map); }
  VolumeClients clients(std::size_t count = FakeCluster::kVolumes) {
    return {cluster.volumes.begin(), cluster.volumes.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  MapLook look() {
    return run_task(cluster.io, cluster.clock,
                    look_at_maps(&source, clients(), cluster.clock, cluster.soon()));
  }
  // What a driver of today makes of what it sees.
  static ClusterMap next_of(const Map& map, const std::string& zone = "") {
    ClusterMap next = *map;
    next.volumes[0].zone = zone;
    auto raised = past_epoch(std::move(next), map->epoch);
    REQUIRE(raised);
    return std::move(*raised);
  }
  Result<MapChanged> change(MapLook seen, ClusterMap next, std::size_t reached = 6) {
    return cluster.run(change_map(source, std::move(seen), std::move(next), clients(reached),
                                  cluster.clock, cluster.soon()));
  }
  Result<MapChanged> restore() {
    return cluster.run(restore_map(source, look(), clients(), cluster.clock, cluster.soon()));
  }
};

}  // namespace

TEST_CASE("of two drivers that saw the same map one changes it") {
  DriverHarness h;
  const MapLook one = h.look();
  const MapLook two = h.look();
  CHECK(one.verdict.trouble == MapTrouble::none);
  const auto changed = h.change(one, h.next_of(one.verdict.follow, "one"));
  REQUIRE(changed);
  CHECK(changed->installed.reached);
  CHECK(code_of(h.change(two, h.next_of(two.verdict.follow, "two"))) == Errc::busy);
  CHECK(h.look().verdict.follow->digest == changed->map->digest);
  CHECK(h.look().verdict.trouble == MapTrouble::none);
}

TEST_CASE("a driver that died behind the first volume leaves a head that the others get") {
  DriverHarness h;
  const MapLook seen = h.look();
  const auto changed = h.change(seen, h.next_of(seen.verdict.follow), 1);
  REQUIRE(changed);
  CHECK(!changed->installed.reached);
  const MapLook later = h.look();
  CHECK(later.verdict.follow->digest == changed->map->digest);
  CHECK(later.verdict.trouble == MapTrouble::none);
  CHECK(later.verdict.lag.size() == 5);
}

TEST_CASE("a map that never was the head does not count, and the next one gets past it") {
  DriverHarness h;
  const Map orphan = std::make_shared<const ClusterMap>(h.next_of(h.cluster.map, "orphan"));
  const auto left =
      h.cluster.run(install_map(orphan, h.clients(1), h.cluster.clock, h.cluster.soon()));
  REQUIRE(left);
  const MapLook seen = h.look();
  CHECK(seen.verdict.follow->digest == h.cluster.map->digest);
  CHECK(seen.verdict.trouble == MapTrouble::volumes_ahead);
  const auto changed = h.change(seen, h.next_of(seen.verdict.follow));
  REQUIRE(changed);
  CHECK(changed->map->epoch > orphan->epoch);
  CHECK(changed->installed.adopted.size() == FakeCluster::kVolumes);
  CHECK(h.look().verdict.trouble == MapTrouble::none);
}

TEST_CASE("a replacement whose answer is lost is looked up") {
  DriverHarness h;
  const MapLook seen = h.look();
  h.source.replaces_in_silence = true;
  const auto changed = h.change(seen, h.next_of(seen.verdict.follow));
  REQUIRE(changed);
  CHECK(changed->revision == h.source.head.revision);
}

TEST_CASE(
    "a source that is older, empty, damaged or forked is told, refuses changes, is restored") {
  DriverHarness h;
  const Map old = h.cluster.map;
  const MapLook begin = h.look();
  const auto changed = h.change(begin, h.next_of(begin.verdict.follow));
  REQUIRE(changed);
  const Map forked = std::make_shared<const ClusterMap>(h.next_of(old, "forked"));
  struct Row {
    Map head;
    MapTrouble trouble;
    bool raised;
  };
  for (const Row& row :
       {Row{nullptr, MapTrouble::source_empty, false},
        Row{nullptr, MapTrouble::source_damaged, false}, Row{old, MapTrouble::source_behind, false},
        Row{forked, MapTrouble::source_forked, true}}) {
    CAPTURE(to_string(row.trouble));
    h.source.set(row.head);
    if (row.trouble == MapTrouble::source_damaged) h.source.damage();
    const MapLook seen = h.look();
    CHECK(seen.verdict.trouble == row.trouble);
    CHECK(seen.verdict.follow->digest == changed->map->digest);
    CHECK(code_of(h.change(seen, h.next_of(seen.verdict.follow))) == Errc::unavailable);
    const auto restored = h.restore();
    REQUIRE(restored);
    CHECK(restored->map->epoch.value == changed->map->epoch.value + (row.raised ? 1 : 0));
    CHECK(h.look().verdict.trouble == MapTrouble::none);
    CHECK(h.look().verdict.follow->digest == restored->map->digest);
    const auto again = h.restore();  // changes nothing
    REQUIRE(again);
    CHECK(again->revision == h.source.head.revision);
  }
}

// The source forgot the map, and one volume has another one of its epoch, which never counted.
TEST_CASE("a map that is restored gets past another one of its epoch, and reaches all") {
  DriverHarness h;
  const MapLook begin = h.look();
  const auto changed = h.change(begin, h.next_of(begin.verdict.follow));
  REQUIRE(changed);
  const ClusterMap forked = h.next_of(h.cluster.map, "forked");
  h.cluster.volumes[5]->acceptor.map = std::make_shared<const std::string>(forked.to_json());
  h.source.set(nullptr);
  CHECK(h.look().verdict.trouble == MapTrouble::source_empty);
  const auto restored = h.restore();
  REQUIRE(restored);
  CHECK(restored->map->epoch > changed->map->epoch);
  CHECK(restored->installed.adopted.size() == FakeCluster::kVolumes);
  CHECK(h.look().verdict.trouble == MapTrouble::none);
}

TEST_CASE("nothing is changed while the source is away or too few volumes answer") {
  DriverHarness h;
  h.source.failure = Errc::unavailable;
  const MapLook away = h.look();
  CHECK(!away.has_source);
  CHECK(away.verdict.follow->digest == h.cluster.map->digest);
  CHECK(code_of(h.change(away, h.next_of(away.verdict.follow))) == Errc::unavailable);
  CHECK(code_of(h.restore()) == Errc::unavailable);
  h.source.failure.reset();
  const auto few =
      run_task(h.cluster.io, h.cluster.clock,
               look_at_maps(&h.source, h.clients(2), h.cluster.clock, h.cluster.soon()));
  CHECK(few.verdict.trouble == MapTrouble::no_majority);
  CHECK(code_of(h.change(few, h.next_of(few.verdict.follow))) == Errc::unavailable);
}

// As when the source came back older, and is all that a driver reaches.
TEST_CASE("nothing is changed while no volume answers that could know better") {
  DriverHarness h;
  const MapLook first = h.look();
  REQUIRE(h.change(first, h.next_of(first.verdict.follow)));
  const auto none = run_task(h.cluster.io, h.cluster.clock,
                             look_at_maps(&h.source, {}, h.cluster.clock, h.cluster.soon()));
  REQUIRE(none.verdict.follow);
  CHECK(code_of(h.change(none, h.next_of(none.verdict.follow))) == Errc::unavailable);
  CHECK(h.source.head.map->digest == none.verdict.follow->digest);
}

TEST_CASE("a head that lost volumes is changed no further, and restored under a higher epoch") {
  DriverHarness h;
  ClusterMap wider = *h.cluster.map;
  wider.volumes.push_back(wider.volumes[0]);
  wider.volumes.back().id = VolumeId{99};
  wider.volumes.back().name = "added";
  const MapLook first = h.look();
  auto raised = past_epoch(std::move(wider), first.verdict.highest_seen);
  REQUIRE(raised);
  REQUIRE(h.change(first, std::move(*raised)));
  const Map lost = std::make_shared<const ClusterMap>(
      h.next_of(std::make_shared<const ClusterMap>(h.next_of(h.cluster.map, "a")), "b"));
  h.source.set(lost);
  const MapLook seen = h.look();
  CHECK(seen.verdict.trouble == MapTrouble::source_lacks_volumes);
  CHECK(code_of(h.change(seen, h.next_of(seen.verdict.follow))) == Errc::unavailable);
  const auto restored = h.restore();
  REQUIRE(restored);
  CHECK(restored->map->find(VolumeId{99}) != nullptr);
  CHECK(restored->map->epoch > lost->epoch);
  CHECK(h.look().verdict.trouble == MapTrouble::none);
}

}  // namespace penstock
