#include <doctest/doctest.h>

#include <utility>

#include "placement/map_change.h"
#include "tests/unit/membership/admission_world.h"

// Whose word counts: that of the volumes of each map that may count.
namespace penstock {
namespace {

// Five others of a later map, of which the copy knows one only: v5.
ClusterMap later_map(std::uint64_t epochs = 1) {
  ClusterMap later = map_of(6, 1);
  for (std::size_t i = 1; i < 5; ++i) {
    const VolumeId gone = later.volumes[i].id;
    later.volumes[i].id = VolumeId{20 + i};
    for (MapGroup& group : later.groups) {
      for (VolumeId& replica : group.replicas)
        replica = replica == gone ? VolumeId{20 + i} : replica;
    }
  }
  later.epoch = Epoch{later.epoch.value + epochs};
  return later;
}

TEST_CASE("a newer map of a peer says who is asked") {
  World world;
  const ClusterMap later = later_map();
  const std::string text = later.to_json();
  REQUIRE(ClusterMap::parse(text));
  // Most have it: it counts.
  for (std::uint64_t id : {4, 5, 6}) world.peer(id).map = std::make_shared<const std::string>(text);
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  CHECK(world.start->why.find("1 did") != std::string::npos);
  for (std::uint64_t id : {21, 22}) world.add(VolumeId{id});
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
  CHECK(world.peer(21).notes[starts_note(VolumeId{1})] == "5");
}

TEST_CASE("those who hold a newer map still hold the one before, too") {
  World world;
  for (std::uint64_t id : {2, 3, 4, 5}) world.lose(id);
  for (std::uint64_t id : {21, 22}) world.add(VolumeId{id});
  const auto text = std::make_shared<const std::string>(later_map().to_json());
  for (std::uint64_t id : {6, 21}) world.peer(id).map = text;
  world.peer(22).map = std::make_shared<const std::string>(later_map(2).to_json());
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
}

TEST_CASE("a volume that a newer map of most volumes names no more is not admitted") {
  World world;
  ClusterMap later = map_of(6, 1, 2);
  later.epoch = Epoch{later.epoch.value + 1};
  for (std::uint64_t id : {3, 4, 5, 6}) {
    world.peer(id).map = std::make_shared<const std::string>(later.to_json());
  }
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  CHECK(world.start->why.find("names it no more") != std::string::npos);
}

TEST_CASE("one that a newer map of a single peer names no more asks the peers of the others' map") {
  World world;
  ClusterMap later = map_of(6, 1, 2);
  later.epoch = Epoch{later.epoch.value + 1};
  world.peer(6).map = std::make_shared<const std::string>(later.to_json());
  for (std::uint64_t id : {2, 3, 4}) world.lose(id);
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  CHECK(world.start->why.find("waits for 3 of 5 other volumes") == 0);
  world.bring(2);
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
}

TEST_CASE("a newer map of a single peer adds to those who are asked, and takes nobody's place") {
  World world;
  world.process = "this process";  // peers that noted its start are asked again
  ClusterMap later = map_of(12, 1);
  later.policy = world.map.policy;
  later.groups = world.map.groups;
  later.epoch = Epoch{later.epoch.value + 1};
  for (MapGroup& group : later.groups) group.epoch = Epoch{group.epoch.value + 1};
  const std::string text = later.to_json();
  REQUIRE(ClusterMap::parse(text));
  for (std::uint64_t id = 7; id <= 12; ++id) world.add(VolumeId{id});
  world.peer(6).map = std::make_shared<const std::string>(text);
  for (std::uint64_t id : {2, 3, 4}) world.lose(id);
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);  // though 8 of 11 say nothing against it
  world.bring(2);
  SUBCASE("enough of both") {
    world.run_for(kLater);
    CHECK(world.start->admitted == 1);
  }
  SUBCASE("of one of them alone") {
    for (std::uint64_t id = 7; id <= 12; ++id) world.peer(id).takes_notes = false;
    world.run_for(kLater);
    CHECK(world.start->admitted == 0);
    CHECK(world.start->why.find("to note its start") != std::string::npos);
    for (std::uint64_t id : {2, 5}) world.peer(id).map = std::make_shared<const std::string>(text);
    for (std::uint64_t id : {3, 4}) world.bring(id);
    for (std::uint64_t id : {9, 10, 11, 12}) world.peer(id).takes_notes = true;
    world.run_for(kLater);
    CHECK(world.start->admitted == 1);
  }
}

// v4 of five was replaced, and as many as may be are lost: of the peers that are left one took the
// last map at most, and of the map before v4 is one loss too many.
TEST_CASE("the map that its process follows counts, however few of those that hold it are there") {
  World world(5);
  MapVolume joining = world.map.volumes[4];
  joining.id = VolumeId{6};
  joining.name = joining.host = "joining";
  const auto joint = begin_replacement(world.map, VolumeId{5}, joining);
  REQUIRE(joint);
  const auto last = end_replacement(end_joint(*joint).value());
  REQUIRE(last);
  world.add(VolumeId{6});
  const std::string before = joint->to_json(), newest = last->to_json();
  for (std::uint64_t id : {2, 6}) world.peer(id).map = std::make_shared<const std::string>(before);
  for (std::uint64_t id : {3, 4, 5}) world.lose(id);
  world.start->text = before;
  SUBCASE("it holds it itself") { world.start->text = newest; }
  SUBCASE("a peer holds it") { world.peer(2).map = std::make_shared<const std::string>(newest); }
  SUBCASE("nobody who is there holds it") {}
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  CHECK(world.start->why.find("waits for 3 of 5 other volumes") == 0);
  world.followed = std::make_shared<const ClusterMap>(*last);
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
  CHECK(world.start->member);
  CHECK(world.noted("5") == 2);
}

TEST_CASE("those who held an older map are asked again, for they may take the newer one") {
  World world;
  for (std::uint64_t id : {2, 3, 4, 5}) world.lose(id);
  for (std::uint64_t id : {21, 22}) world.add(VolumeId{id});
  const auto text = std::make_shared<const std::string>(later_map().to_json());
  for (std::uint64_t id : {6, 21}) world.peer(id).map = text;
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  world.peer(22).map = text;
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
}

TEST_CASE("of two maps of one epoch the other one has no say when one of them counts") {
  for (const std::string zone : {"a", "b", "c", "d", "e", "f", "g", "h"}) {  // in any order
    CAPTURE(zone);
    World world;
    ClusterMap next = world.map, fork = map_of(12, 1);
    next.volumes.back().zone = fork.volumes.back().zone = zone;
    fork.policy = world.map.policy;
    fork.groups = world.map.groups;
    for (ClusterMap* map : {&next, &fork}) {
      map->epoch = Epoch{map->epoch.value + 1};
      for (MapGroup& group : map->groups) group.epoch = Epoch{group.epoch.value + 1};
    }
    const std::string text = next.to_json(), other = fork.to_json();
    REQUIRE(ClusterMap::parse(other));
    for (std::uint64_t id : {2, 3, 4})
      world.peer(id).map = std::make_shared<const std::string>(text);
    world.peer(6).map = std::make_shared<const std::string>(other);
    world.begin();
    world.run_for(kLater);
    CHECK(world.start->admitted == 1);
  }
}

TEST_CASE("a volume whose own map cannot be read waits: nobody knows whom to ask") {
  World world;
  const std::string text = std::exchange(world.start->text, R"({"version": 7, "of": "later"})");
  SUBCASE("its process follows none") {}
  SUBCASE("its process follows one") {
    world.followed = std::make_shared<const ClusterMap>(world.map);
  }
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  CHECK(world.start->counted == 0);
  CHECK(world.start->refused.empty());
  CHECK(world.start->why.find("newer release") != std::string::npos);
  world.start->text = text;
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
}

TEST_CASE("an admitted volume keeps no maps that cannot count any more") {
  World world;
  world.begin();
  world.run_for(kSoon);
  REQUIRE(world.start->admitted == 1);
  for (int i = 0; i < 20; ++i) {  // changes of the map, which it adopts
    auto next = ClusterMap::parse(world.start->text);
    REQUIRE(next);
    ++next->epoch.value;
    for (MapGroup& group : next->groups) ++group.epoch.value;
    world.start->text = next->to_json();
    world.run_for(std::chrono::seconds(2));
  }
  CHECK(world.start->admitted == 1);
  CHECK(world.admission->maps_kept() == 1);
  world.add(VolumeId{7});  // those that a newer map names are told of the start still
  auto last = add_volumes(*ClusterMap::parse(world.start->text), {[] {
    MapVolume joins;
    joins.id = VolumeId{7};
    joins.name = joins.host = "joins";
    return joins;
  }()});
  REQUIRE(last);
  world.start->text = last->to_json();
  world.run_for(kLater);
  CHECK(world.peer(7).notes[starts_note(VolumeId{1})] == "5");
}

}  // namespace
}  // namespace penstock
