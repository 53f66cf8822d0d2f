#include "server/map_source/map_follower.h"

#include <doctest/doctest.h>

#include "placement/map_change.h"
#include "tests/fake/fake_cluster.h"
#include "tests/fake/fake_map_source.h"

namespace penstock {
namespace {

using Map = std::shared_ptr<const ClusterMap>;

// A server with the first volume of six, or a gateway.
struct FollowerHarness {
  FakeCluster cluster;
  FakeMapSource source{cluster.clock};
  Map current = cluster.map;
  std::size_t taken = 0;  // maps
  VolumeClients own = first(1);
  BootTime reached{};   // before, only the own volumes answer
  bool by_map = false;  // it reaches the volumes of the map that it asks for, no others
  bool misses = false;
  bool moved = false;  // once
  std::vector<Announcement> met;
  std::unique_ptr<MapFollower> follower;

  FollowerHarness() { source.set(cluster.map); }
  ~FollowerHarness() {
    follower->stop();
    cluster.io.restart();
    cluster.io.poll();
  }

  void start(bool with_source) {
    FollowerParts parts{cluster.clock, with_source ? &source : nullptr, {}, {}, {}, {}, {}, {}, {}};
    parts.current = [this] { return current; };
    parts.take = [this](Map map, SameEpoch other) -> Result<> {
      CHECK((current == nullptr || takes_place_of(*map, *current, other)));
      current = std::move(map);
      ++taken;
      return {};
    };
    parts.clients = [this](const ClusterMap* map) {
      VolumeClients clients = cluster.clock.boot() < reached ? own : all();
      std::erase_if(clients, [&](const auto& client) {
        return by_map && map->find(client->id()) == nullptr;
      });
      return clients;
    };
    parts.own = [this] { return own; };
    parts.moved = [this] { return std::exchange(moved, false); };
    parts.misses = [this] { return misses; };
    parts.meet = [this](const std::vector<Announcement>& all) { met = all; };
    follower = std::make_unique<MapFollower>(std::move(parts));
    follower->start(cluster.io.get_executor());
  }
  VolumeClients first(std::size_t count) {
    return {cluster.volumes.begin(), cluster.volumes.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  VolumeClients all() { return {cluster.volumes.begin(), cluster.volumes.end()}; }

  template <class Done>
  bool within(Duration time, Done done) {
    const BootTime end = cluster.clock.boot() + time;
    cluster.io.restart();
    run_until(cluster.io, cluster.clock, [&] { return done() || cluster.clock.boot() >= end; });
    return done();
  }
  static Map after(const Map& map, const std::string& zone = "") {
    ClusterMap next = *map;
    next.volumes[0].zone = zone;
    auto raised = past_epoch(std::move(next), map->epoch);
    REQUIRE(raised);
    return std::make_shared<const ClusterMap>(std::move(*raised));
  }
  // As another process does.
  void install(const Map& map, const VolumeClients& volumes) {
    REQUIRE(cluster.run(install_map(map, volumes, cluster.clock, cluster.soon())));
  }
  // The map with one more volume.
  Map wider() const {
    ClusterMap more = *cluster.map;
    more.volumes.push_back(more.volumes[0]);
    more.volumes.back().id = VolumeId{99};
    more.volumes.back().name = "added";
    auto raised = past_epoch(std::move(more), cluster.map->epoch);
    REQUIRE(raised);
    return std::make_shared<const ClusterMap>(std::move(*raised));
  }
  Map held_by(std::size_t index) {
    const auto text = cluster.run(cluster.volumes[index]->read_map(cluster.soon()));
    REQUIRE(text);
    auto map = ClusterMap::parse(**text);
    REQUIRE(map);
    return std::make_shared<const ClusterMap>(std::move(*map));
  }
  MapTrouble trouble() const { return follower->state().trouble; }
};

constexpr Duration kSoon = std::chrono::seconds(1);
constexpr Duration kLater = std::chrono::seconds(40);

}  // namespace

TEST_CASE("a new head is followed at once, and the own volumes are brought to it") {
  FollowerHarness h;
  h.start(true);
  CHECK(!h.within(kSoon, [&] { return h.current != h.cluster.map; }));
  const Map next = h.after(h.cluster.map);
  h.source.set(next);
  CHECK(h.within(kSoon, [&] { return h.current == next; }));
  CHECK(h.within(kSoon, [&] { return h.follower->state().epoch == next->epoch; }));
  h.within(kSoon, [] { return false; });
  CHECK(h.held_by(0)->digest == next->digest);
  CHECK(h.held_by(1)->digest == h.cluster.map->digest);  // its own server's matter
  CHECK(h.trouble() == MapTrouble::none);
}

TEST_CASE("without a source, what majorities hold is followed, and nothing else") {
  FollowerHarness h;
  h.start(false);
  const Map next = h.after(h.cluster.map);
  h.install(next, {h.cluster.volumes[5]});
  CHECK(!h.within(kLater, [&] { return h.current != h.cluster.map; }));
  CHECK(h.trouble() == MapTrouble::volumes_ahead);
  h.install(next, {h.cluster.volumes.begin() + 1, h.cluster.volumes.end()});
  CHECK(h.within(kLater, [&] { return h.current->digest == next->digest; }));
  CHECK(h.within(kSoon, [&] { return h.trouble() == MapTrouble::none; }));
  CHECK(h.held_by(0)->digest == next->digest);
}

TEST_CASE("without a source, the volumes that a newer map names are asked, too") {
  FollowerHarness h;
  h.own.clear();
  h.by_map = true;
  MapVolume joining = h.cluster.map->volumes[5];
  joining.id = VolumeId{7};
  joining.name = "joining";
  h.cluster.add_volume(joining.id);
  const auto joint = begin_replacement(*h.cluster.map, VolumeId{6}, joining);
  REQUIRE(joint);
  const auto moving = end_joint(*joint);
  REQUIRE(moving);
  const auto next = end_replacement(*moving);
  REQUIRE(next);
  const Map last = std::make_shared<const ClusterMap>(*next);
  for (const std::size_t i : {0, 1, 2, 6}) {
    h.cluster.volumes[i]->acceptor.map = std::make_shared<const std::string>(last->to_json());
  }
  for (const std::size_t i : {3, 4}) h.cluster.volumes[i]->go_missing();
  h.start(false);
  CHECK(h.within(kLater, [&] { return h.current->digest == last->digest; }));
}

TEST_CASE("a source that is away is told, and the map of majorities is followed meanwhile") {
  FollowerHarness h;
  h.start(true);
  h.source.failure = Errc::unavailable;
  h.source.set(h.cluster.map);  // wakes who waits
  CHECK(h.within(kLater, [&] { return !h.follower->state().source_error.empty(); }));
  CHECK(map_lines(h.follower->state()).find("map source away: ") != std::string::npos);
  const Map next = h.after(h.cluster.map);
  h.install(next, h.all());
  CHECK(h.within(kLater, [&] { return h.current->digest == next->digest; }));
  h.source.failure.reset();
  CHECK(h.within(kLater, [&] { return h.follower->state().source_error.empty(); }));
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_behind; }));
}

TEST_CASE("a source that comes back older takes nothing back, and is told until it is restored") {
  FollowerHarness h;
  h.own.clear();
  const Map old = h.cluster.map;
  const Map next = h.after(old);
  h.source.set(next);
  h.install(next, h.all());
  h.start(true);
  CHECK(h.within(kLater, [&] { return h.current->digest == next->digest; }));
  h.source.set(old);
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_behind; }));
  h.source.set(h.after(old, "forked"));
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_forked; }));
  h.source.set(nullptr);
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_empty; }));
  h.source.damage();
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_damaged; }));
  CHECK(h.follower->state().source_error.empty());
  CHECK(map_lines(h.follower->state()).find("ring restore") != std::string::npos);
  CHECK(h.current->digest == next->digest);
  h.source.set(next);
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::none; }));
  CHECK(h.current->digest == next->digest);
}

TEST_CASE("one that starts beside a forked source follows what majorities hold") {
  FollowerHarness h;
  const Map held = h.after(h.cluster.map, "held");
  h.install(held, h.all());
  h.source.set(h.after(h.cluster.map, "forked"));
  h.current = nullptr;
  h.reached = h.cluster.clock.boot() + Duration(std::chrono::milliseconds(300));
  h.start(true);
  CHECK(h.within(kSoon, [&] { return h.current != nullptr; }));
  CHECK(h.current->digest == held->digest);
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_forked; }));
  CHECK(h.current->digest == held->digest);
  CHECK(h.held_by(0)->digest == held->digest);
}

TEST_CASE(
    "one that starts alone takes no head that its own volume contradicts, until others answer") {
  for (const std::string zone : {"older", "forked"}) {
    CAPTURE(zone);
    FollowerHarness h;
    const Map held = h.after(h.cluster.map, "held");
    h.install(held, h.all());
    h.source.set(zone == "older" ? h.cluster.map : h.after(h.cluster.map, zone));
    h.current = nullptr;
    h.reached = h.cluster.clock.boot() + kLater;
    h.start(true);
    CHECK(!h.within(kLater / 2, [&] { return h.current != nullptr; }));
    CHECK(h.trouble() == MapTrouble::no_majority);
    CHECK(h.within(kLater, [&] { return h.current != nullptr; }));
    CHECK(h.current->digest == held->digest);
  }
}

TEST_CASE("one that starts alone takes a head that nothing contradicts, but not at once") {
  FollowerHarness h;
  const Map next = h.after(h.cluster.map);
  h.source.set(next);
  h.current = nullptr;
  h.reached = h.cluster.clock.boot() + kLater;
  h.start(true);
  CHECK(!h.within(kSoon, [&] { return h.current != nullptr; }));
  CHECK(h.within(2 * kSoon, [&] { return h.current != nullptr; }));
  CHECK(h.current->digest == next->digest);
}

TEST_CASE("one that starts alone takes no head that lost a volume of its own map") {
  FollowerHarness h;
  const Map held = h.wider();
  h.install(held, h.all());
  h.source.set(h.after(h.after(h.cluster.map, "a"), "b"));
  h.current = nullptr;
  h.reached = h.cluster.clock.boot() + kLater;
  h.start(true);
  CHECK(!h.within(kLater / 2, [&] { return h.current != nullptr; }));
  CHECK(h.within(kLater, [&] { return h.current != nullptr; }));
  CHECK(h.current->digest == held->digest);
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_lacks_volumes; }));
}

TEST_CASE("a head that comes late is waited with as long as one that is there at the start") {
  FollowerHarness h;
  h.current = nullptr;
  h.reached = h.cluster.clock.boot() + kLater;
  h.source.failure = Errc::unavailable;
  h.start(true);
  CHECK(!h.within(kLater / 2, [&] { return h.current != nullptr; }));
  h.source.failure.reset();
  CHECK(!h.within(kSoon + kSoon / 2, [&] { return h.current != nullptr; }));
  CHECK(h.within(2 * kSoon, [&] { return h.current != nullptr; }));
}

TEST_CASE(
    "a map of the same epoch that majorities hold takes the place of one that never counted") {
  FollowerHarness h;
  const Map held = h.after(h.cluster.map, "held");
  h.current = h.after(h.cluster.map, "forked");
  h.source.set(h.current);
  h.install(held, h.first(2));
  h.start(true);
  const Map forked = h.current;
  CHECK(!h.within(kLater, [&] { return h.current != forked; }));  // two volumes are no majority
  h.install(held, h.all());
  CHECK(h.within(kLater, [&] { return h.current->digest == held->digest; }));
  CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_forked; }));
  CHECK(h.current->digest == held->digest);
}

TEST_CASE("a head that lost a volume is not followed, whether volumes answer or not") {
  for (const bool alone : {false, true}) {
    CAPTURE(alone);
    FollowerHarness h;
    const Map held = h.wider();
    h.install(held, h.all());
    h.current = held;
    if (alone) h.reached = h.cluster.clock.boot() + kLater * 2;
    h.start(true);
    h.source.set(h.after(h.after(h.cluster.map, "a"), "b"));
    const MapTrouble told = alone ? MapTrouble::no_majority : MapTrouble::source_lacks_volumes;
    CHECK(h.within(kLater, [&] { return h.trouble() == told; }));
    CHECK(!h.within(kSoon, [&] { return h.current != held; }));
    CHECK(h.held_by(0)->digest == held->digest);  // nor are the own volumes brought to it
  }
}

TEST_CASE("one that missed a map takes no head that lost a volume of it") {
  for (const bool alone : {false, true}) {
    CAPTURE(alone);
    FollowerHarness h;
    const Map held = h.wider();
    if (alone) h.reached = h.cluster.clock.boot() + kLater * 2;
    h.start(true);
    CHECK(!h.within(kSoon, [&] { return h.current != h.cluster.map; }));
    h.install(held, h.all());
    h.source.set(h.after(h.after(h.cluster.map, "a"), "b"));
    CHECK(!h.within(kSoon, [&] {
      return h.current->find(VolumeId{99}) == nullptr && h.current != h.cluster.map;
    }));
    CHECK(h.within(kLater * 4, [&] { return h.current->digest == held->digest; }));
    CHECK(h.within(kLater, [&] { return h.trouble() == MapTrouble::source_lacks_volumes; }));
    CHECK(h.held_by(0)->digest == held->digest);
  }
}

TEST_CASE(
    "of two maps of one epoch that share the volumes the head goes on, also for one far behind") {
  FollowerHarness h;
  const Map before = h.after(h.cluster.map);
  const Map one = h.after(before, "one");
  const Map other = h.after(before, "other");
  h.install(before, h.all());
  h.install(one, h.first(3));
  h.install(other, {h.cluster.volumes.begin() + 3, h.cluster.volumes.end()});
  h.start(true);
  CHECK(!h.within(kSoon, [&] { return h.current != h.cluster.map; }));
  h.source.set(other);
  CHECK(h.within(kLater, [&] { return h.current->digest == other->digest; }));
}

TEST_CASE("one whose volume was given a map takes no other head of that epoch") {
  FollowerHarness h;
  const Map held = h.after(h.cluster.map, "held");
  h.start(true);
  CHECK(!h.within(kSoon, [&] { return h.current != h.cluster.map; }));
  h.install(held, h.all());
  h.moved = true;
  h.source.set(h.after(h.cluster.map, "forked"));
  CHECK(h.within(kSoon, [&] { return h.current != h.cluster.map; }));
  CHECK(h.current->digest == held->digest);
  CHECK(h.taken == 1);
}

TEST_CASE("while volumes are missing, what servers announce is looked at") {
  FollowerHarness h;
  h.source.announcements = {{"10.0.0.9:9200", "", "", {{VolumeId{2}, 7}}}};
  h.start(true);
  CHECK(!h.within(kLater, [&] { return !h.met.empty(); }));
  h.misses = true;
  CHECK(h.within(2 * kSoon, [&] { return h.met == h.source.announcements; }));
}

TEST_CASE("a candidate takes no map before one names it, then joins as all do") {
  FollowerHarness h;
  h.current = nullptr;
  h.cluster.add_volume(VolumeId{99});
  h.own = VolumeClients{h.cluster.volumes.back()};
  h.start(true);
  CHECK(!h.within(kLater, [&] { return h.current != nullptr; }));
  ClusterMap wider = *h.cluster.map;
  MapVolume named;
  named.id = VolumeId{99};
  named.name = "added";
  named.host = "added";
  wider.volumes.push_back(named);
  auto raised = past_epoch(std::move(wider), h.cluster.map->epoch);
  REQUIRE(raised);
  const Map next = std::make_shared<const ClusterMap>(std::move(*raised));
  h.source.set(next);
  CHECK(h.within(kSoon, [&] { return h.current == next; }));
  h.within(kLater, [] { return false; });
  CHECK(h.held_by(FakeCluster::kVolumes)->digest == next->digest);
}

}  // namespace penstock
