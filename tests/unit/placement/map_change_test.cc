#include "placement/map_change.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

ClusterMap six_volumes() {
  std::vector<MapVolume> volumes;
  for (std::uint64_t i = 0; i < 6; ++i) {
    MapVolume volume;
    volume.id = VolumeId{100 + i};
    volume.name = "v" + std::to_string(i);
    volume.host = "local";
    volume.weight = i == 2 ? 3.0 : 1.0;
    volumes.push_back(volume);
  }
  return make_map(ClusterId{1, 2}, volumes, 16).value();
}

MapVolume fresh(std::uint64_t id = 200) {
  MapVolume volume;
  volume.id = VolumeId{id};
  volume.name = "v" + std::to_string(id);
  return volume;
}

bool holds(const std::vector<VolumeId>& list, VolumeId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

const VolumeId kOld{102};
const VolumeId kNew{200};

}  // namespace

TEST_CASE("a steady map has no change under way") { CHECK(!change_of(six_volumes())); }

TEST_CASE("a replacement begins with joint lists in the groups of the old volume alone") {
  const ClusterMap before = six_volumes();
  const ClusterMap joint = begin_replacement(before, kOld, fresh()).value();
  CHECK(joint.epoch.value == before.epoch.value + 1);
  for (std::size_t i = 0; i < joint.groups.size(); ++i) {
    const MapGroup& group = joint.groups[i];
    CHECK(group.replicas == before.groups[i].replicas);
    CHECK(group.joint.empty() == !holds(group.replicas, kOld));
    if (group.joint.empty()) continue;
    CHECK(!holds(group.joint, kOld));
    CHECK(holds(group.joint, kNew));
  }
  const auto change = change_of(joint);
  REQUIRE(change);
  CHECK(change->phase == MapChange::Phase::joint);
  CHECK(change->leaving == kOld);
  CHECK(change->joining == kNew);
}

TEST_CASE("groups with other members, of either list, have other digests") {
  MapGroup steady;
  steady.epoch = Epoch{2};
  steady.replicas = {VolumeId{1}, VolumeId{2}, VolumeId{3}};
  MapGroup joint = steady;
  joint.joint = {VolumeId{4}, VolumeId{2}, VolumeId{3}};
  MapGroup joint_elsewhere = steady;
  joint_elsewhere.joint = {VolumeId{5}, VolumeId{2}, VolumeId{3}};
  MapGroup other = steady;
  other.replicas.back() = VolumeId{4};
  std::set<std::array<unsigned char, 32>> digests;
  for (const MapGroup& group : {steady, joint, joint_elsewhere, other}) {
    digests.insert(group_digest(group));
  }
  CHECK(digests.size() == 4);
}

TEST_CASE("the new volume takes host and weight of the old one, which takes no new data") {
  const ClusterMap joint = begin_replacement(six_volumes(), kOld, fresh()).value();
  CHECK(joint.find(kNew)->weight == 3.0);
  CHECK(joint.find(kNew)->host == "local");
  CHECK(joint.find(kOld)->weight == 0.0);
  CHECK(joint.staying() == 6);
}

TEST_CASE("host, zone and weight of the new volume are the old one's unless it brings its own") {
  ClusterMap before = six_volumes();
  for (MapVolume& volume : before.volumes) volume.zone = "z" + volume.name;
  const ClusterMap taken = begin_replacement(before, kOld, fresh()).value();
  CHECK(taken.find(kNew)->zone == "zv2");
  MapVolume moved = fresh();
  moved.host = "elsewhere";
  moved.zone = "other";
  const ClusterMap given = begin_replacement(before, kOld, moved).value();
  CHECK(given.find(kNew)->host == "elsewhere");
  CHECK(given.find(kNew)->zone == "other");
  CHECK(given.find(kNew)->weight == 3.0);
}

TEST_CASE("every step raises the epoch of every group, so that older rounds are refused") {
  const ClusterMap before = six_volumes();
  const ClusterMap joint = begin_replacement(before, kOld, fresh()).value();
  const ClusterMap moving = end_joint(joint).value();
  const ClusterMap after = end_replacement(moving).value();
  const ClusterMap* steps[] = {&before, &joint, &moving, &after};
  for (std::size_t step = 1; step < 4; ++step) {
    CHECK(steps[step]->epoch > steps[step - 1]->epoch);
    CHECK(steps[step]->digest != steps[step - 1]->digest);
    for (std::size_t i = 0; i < before.groups.size(); ++i) {
      CHECK(steps[step]->groups[i].epoch > steps[step - 1]->groups[i].epoch);
      CHECK(group_digest(steps[step]->groups[i]) != group_digest(steps[step - 1]->groups[i]));
    }
  }
}

TEST_CASE("after the joint phase the new lists alone count; the old volume is still in the map") {
  const ClusterMap joint = begin_replacement(six_volumes(), kOld, fresh()).value();
  const ClusterMap moving = end_joint(joint).value();
  REQUIRE(change_of(moving));
  CHECK(change_of(moving)->phase == MapChange::Phase::moving);
  for (std::size_t i = 0; i < joint.groups.size(); ++i) {
    const MapGroup& was = joint.groups[i];
    CHECK(moving.groups[i].replicas == (was.joint.empty() ? was.replicas : was.joint));
    CHECK(moving.groups[i].joint.empty());
  }
  CHECK(moving.find(kOld) != nullptr);
}

TEST_CASE("at the end the old volume is gone and another one may be replaced") {
  const ClusterMap joint = begin_replacement(six_volumes(), kOld, fresh()).value();
  const ClusterMap moving = end_joint(joint).value();
  const ClusterMap after = end_replacement(moving).value();
  CHECK(!change_of(after));
  CHECK(after.find(kOld) == nullptr);
  CHECK(after.volumes.size() == 6);
  CHECK(begin_replacement(after, kNew, fresh(300)));
}

TEST_CASE("one volume is replaced at a time, by one that is new to the map") {
  const ClusterMap before = six_volumes();
  const ClusterMap joint = begin_replacement(before, kOld, fresh()).value();
  CHECK(code_of(begin_replacement(joint, VolumeId{103}, fresh(300))) == Errc::busy);
  CHECK(code_of(begin_replacement(before, VolumeId{999}, fresh())) == Errc::not_found);
  CHECK(code_of(begin_replacement(before, kOld, fresh(103))) == Errc::invalid);
  MapVolume same_name = fresh();
  same_name.name = "v3";
  CHECK(code_of(begin_replacement(before, kOld, same_name)) == Errc::invalid);
}

TEST_CASE("a store of one volume can be moved to another one") {
  MapVolume only;
  only.id = kOld;
  only.name = "v0";
  const ClusterMap before = make_map(ClusterId{1, 2}, {only}, 4).value();
  const auto joint = begin_replacement(before, kOld, fresh());
  REQUIRE(joint);
  CHECK(end_replacement(end_joint(*joint).value()));
}

TEST_CASE("a map with a change under way survives its text") {
  const ClusterMap joint = begin_replacement(six_volumes(), kOld, fresh()).value();
  const ClusterMap again = ClusterMap::parse(joint.to_json()).value();
  CHECK(again.digest == joint.digest);
  CHECK(again.find(kOld)->successor == kNew);
  CHECK(joint.to_json().find("successor") != std::string::npos);
  CHECK(six_volumes().to_json().find("successor") == std::string::npos);
}

TEST_CASE("maps with successors that make no sense are refused") {
  const ClusterMap joint = begin_replacement(six_volumes(), kOld, fresh()).value();
  ClusterMap weighty = joint;
  ClusterMap unknown = joint;
  ClusterMap shared = joint;
  for (MapVolume& volume : weighty.volumes) {
    if (volume.id == kOld) volume.weight = 1;
  }
  for (MapVolume& volume : unknown.volumes) {
    if (volume.id == kOld) volume.successor = VolumeId{999};
  }
  shared.volumes[0].weight = 0;
  shared.volumes[0].successor = kNew;
  CHECK(!check_map(weighty));
  CHECK(!check_map(unknown));
  CHECK(!check_map(shared));
}

// ---- volumes that join

namespace {

ClusterMap hosts(std::size_t count, std::size_t per_host) {
  std::vector<MapVolume> volumes;
  for (std::uint64_t i = 0; i < count * per_host; ++i) {
    MapVolume volume;
    volume.id = VolumeId{100 + i};
    volume.name = "v" + std::to_string(i);
    volume.host = "h" + std::to_string(i / per_host);
    volumes.push_back(volume);
  }
  return make_map(ClusterId{1, 2}, volumes, 16).value();
}

MapVolume joining(std::uint64_t id, const char* host) {
  MapVolume volume;
  volume.id = VolumeId{id};
  volume.host = host;
  return volume;
}

}  // namespace

TEST_CASE("volumes that join get names, every epoch rises, lists and layout stay") {
  const ClusterMap before = hosts(6, 1);
  const auto after = add_volumes(before, {joining(200, "h6"), joining(201, "h7")});
  REQUIRE(after);
  CHECK(after->epoch.value == before.epoch.value + 1);
  CHECK(after->digest != before.digest);
  CHECK(after->policy == before.policy);
  REQUIRE(after->volumes.size() == 8);
  CHECK(after->find(VolumeId{200})->name == "v6");
  CHECK(after->find(VolumeId{201})->name == "v7");
  for (std::size_t i = 0; i < before.groups.size(); ++i) {
    CHECK(after->groups[i].epoch.value == before.groups[i].epoch.value + 1);
    CHECK(after->groups[i].replicas == before.groups[i].replicas);
    CHECK(after->groups[i].joint.empty());
  }
  CHECK(!change_of(*after));
}

TEST_CASE("a name is not used twice, given or made") {
  MapVolume named = joining(200, "h6");
  named.name = "v17";
  const auto after = add_volumes(hosts(6, 1), {named, joining(201, "h7")});
  REQUIRE(after);
  CHECK(after->find(VolumeId{201})->name == "v18");
  named.name = "v3";
  CHECK(code_of(add_volumes(hosts(6, 1), {named})) == Errc::invalid);
}

TEST_CASE("volumes that cannot join are refused, and it is said why") {
  const ClusterMap before = hosts(6, 1);
  CHECK(code_of(add_volumes(before, {})) == Errc::invalid);
  const auto same = add_volumes(before, {joining(103, "h9")});
  CHECK(code_of(same) == Errc::invalid);
  CHECK(same.error().context.find("\"v3\" is in the map already") != std::string::npos);
  CHECK(code_of(add_volumes(before, {joining(200, "h6"), joining(200, "h7")})) == Errc::invalid);
  CHECK(code_of(add_volumes(before, {joining(0, "h6")})) == Errc::invalid);
  const ClusterMap joint = begin_replacement(six_volumes(), kOld, fresh()).value();
  CHECK(code_of(add_volumes(joint, {joining(300, "h6")})) == Errc::busy);
}

TEST_CASE("volumes that moved are named at their new addresses, alone or while others join") {
  const ClusterMap before = hosts(6, 1);
  const MovedVolumes moved{{VolumeId{101}, "10.0.0.9:9200"}};
  const auto after = add_volumes(before, {}, moved);
  REQUIRE(after);
  CHECK(after->epoch.value == before.epoch.value + 1);
  CHECK(after->find(VolumeId{101})->address == "10.0.0.9:9200");
  CHECK(after->find(VolumeId{101})->host == before.find(VolumeId{101})->host);
  for (const MapVolume& volume : before.volumes) {
    if (volume.id != VolumeId{101}) CHECK(*after->find(volume.id) == volume);
  }
  for (std::size_t i = 0; i < before.groups.size(); ++i) {
    CHECK(after->groups[i].epoch.value == before.groups[i].epoch.value + 1);
    CHECK(after->groups[i].replicas == before.groups[i].replicas);
  }
  const auto both = add_volumes(before, {joining(200, "h6")}, moved);
  REQUIRE(both);
  CHECK(both->volumes.size() == 7);
  CHECK(both->find(VolumeId{101})->address == "10.0.0.9:9200");
  CHECK(code_of(add_volumes(before, {}, {{VolumeId{999}, "10.0.0.9:9200"}})) == Errc::not_found);
}

TEST_CASE("a store of one host grows to two, not to three: its records would be too crowded") {
  const ClusterMap one = hosts(1, 6);
  const auto two = add_volumes(one, {joining(200, "h1"), joining(201, "h1")});
  REQUIRE(two);
  CHECK(add_volumes(*two, {joining(202, "h1")}));
  const auto three = add_volumes(*two, {joining(202, "h2")});
  CHECK(code_of(three) == Errc::invalid);
  CHECK(three.error().context.find("at most 2 hosts") != std::string::npos);
}

TEST_CASE("a map that says where its volumes are served is a new version, once") {
  const ClusterMap before = six_volumes();
  const ClusterMap served = serve_at(before, "10.0.0.1:9200", "one", "z").value();
  CHECK(served.epoch.value == before.epoch.value + 1);
  CHECK(served.groups[3].epoch.value == before.groups[3].epoch.value + 1);
  CHECK(served.groups[3].replicas == before.groups[3].replicas);
  for (const MapVolume& volume : served.volumes) {
    CHECK(volume.address == "10.0.0.1:9200");
    CHECK(volume.host == "one");
    CHECK(volume.zone == "z");
  }
  CHECK(serve_at(served, "10.0.0.1:9200", "one", "z").value().digest == served.digest);
  CHECK(code_of(serve_at(before, "\n", "one", "z")) == Errc::invalid);
}

}  // namespace penstock
