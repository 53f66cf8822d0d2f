#include "server/membership/map_vote.h"

#include <doctest/doctest.h>

#include <string>

#include "placement/map_change.h"

namespace penstock {
namespace {

using Map = std::shared_ptr<const ClusterMap>;

constexpr std::size_t kVolumes = 6;

Map shared(Result<ClusterMap> map) {
  REQUIRE(map);
  return std::make_shared<const ClusterMap>(std::move(*map));
}

Map first_map() {
  std::vector<MapVolume> volumes;
  for (std::uint64_t i = 1; i <= kVolumes; ++i) {
    MapVolume volume;
    volume.id = VolumeId{i};
    volume.name = "v" + std::to_string(i);
    volume.host = "host" + std::to_string(i);
    volume.address = "127.0.0.1:" + std::to_string(9000 + i);
    volumes.push_back(std::move(volume));
  }
  return shared(make_map(ClusterId{1, 2}, std::move(volumes), 16));
}

// The same with the next epochs; another zone makes another map of the same epoch.
Map after(const Map& map, const std::string& zone = "") {
  ClusterMap next = *map;
  next.volumes[0].zone = zone;
  return shared(past_epoch(std::move(next), map->epoch));
}

// The first `count` volumes hold `map`, the others `rest`.
std::vector<HeldMap> held_by(std::size_t count, const Map& map, const Map& rest) {
  std::vector<HeldMap> held;
  for (std::size_t i = 0; i < kVolumes; ++i) {
    held.push_back({VolumeId{i + 1}, i < count ? map : rest, true});
  }
  return held;
}

}  // namespace

TEST_CASE("a map that a minority of volumes holds is not followed, but for the head") {
  const Map one = first_map();
  const Map two = after(one);
  const auto held = held_by(1, two, one);
  SUBCASE("without a source") {
    const auto verdict = judge_maps(nullptr, false, held);
    CHECK(verdict.follow == one);
    CHECK(verdict.trouble == MapTrouble::volumes_ahead);
    CHECK(verdict.highest_seen == two->epoch);
    CHECK(verdict.lag.empty());
  }
  SUBCASE("beside an older head") {
    const auto verdict = judge_maps(one, true, held);
    CHECK(verdict.follow == one);
    CHECK(verdict.trouble == MapTrouble::volumes_ahead);
    CHECK(verdict.meaning.find("epoch 2") != std::string::npos);
  }
  SUBCASE("as the head") {
    const auto verdict = judge_maps(two, true, held);
    CHECK(verdict.follow == two);
    CHECK(verdict.trouble == MapTrouble::none);
    CHECK(verdict.lag.size() == kVolumes - 1);
  }
}

TEST_CASE("a map that majorities hold wins over a source that came back otherwise") {
  const Map one = first_map();
  const Map two = after(one);
  const Map other = after(one, "elsewhere");
  const auto held = held_by(5, two, one);
  struct Row {
    Map head;
    MapTrouble trouble;
  };
  for (const Row& row :
       {Row{nullptr, MapTrouble::source_empty}, Row{one, MapTrouble::source_behind},
        Row{other, MapTrouble::source_forked}, Row{two, MapTrouble::none}}) {
    CAPTURE(to_string(row.trouble));
    const auto verdict = judge_maps(row.head, true, held);
    CHECK(verdict.follow == two);
    CHECK(verdict.trouble == row.trouble);
    CHECK(verdict.lag == std::vector<VolumeId>{VolumeId{6}});
    const bool tells = verdict.meaning.find("ring restore") != std::string::npos;
    CHECK(tells == (row.trouble != MapTrouble::none));
  }
  CHECK(judge_maps(nullptr, false, held).trouble == MapTrouble::none);
}

TEST_CASE("a newer map counts for the older one, so that no majority is lost in between") {
  const Map one = first_map();
  const Map two = after(one);
  const auto verdict = judge_maps(nullptr, false, held_by(3, two, one));
  CHECK(verdict.follow == one);
}

TEST_CASE("without a majority the head is followed, and it is said") {
  const Map one = first_map();
  const Map two = after(one);
  std::vector<HeldMap> held = held_by(kVolumes, one, one);
  for (std::size_t i = 2; i < kVolumes; ++i) held[i] = {VolumeId{i + 1}, nullptr, false};
  CHECK(judge_maps(two, true, held).follow == two);
  CHECK(judge_maps(two, true, held).trouble == MapTrouble::no_majority);
  CHECK(judge_maps(nullptr, false, held).follow == nullptr);
  CHECK(judge_maps(nullptr, true, held).trouble == MapTrouble::no_majority);
}

TEST_CASE("while no volume answers, nobody knows whether the head counts, but for a first map") {
  const Map one = first_map();
  const Map two = after(one);
  std::vector<HeldMap> silent;
  for (std::uint64_t i = 1; i <= kVolumes; ++i) silent.push_back({VolumeId{i}, nullptr, false});
  for (const auto& held : {silent, std::vector<HeldMap>()}) {
    const auto verdict = judge_maps(two, true, held);
    CHECK(verdict.follow == two);
    CHECK(verdict.trouble == MapTrouble::no_majority);
    CHECK(forbids_change(verdict.trouble));
    CHECK(!verdict.agreed);
    CHECK(judge_maps(one, true, held).trouble == MapTrouble::none);
  }
}

TEST_CASE("a map is agreed on that majorities hold itself, not by what newer ones they hold") {
  const Map one = first_map();
  const Map two = after(one);
  const Map other = after(one, "elsewhere");
  const Map three = after(two);
  CHECK(judge_maps(other, true, held_by(5, two, one)).agreed);  // the one that is held, `two`
  CHECK(judge_maps(two, true, held_by(5, two, one)).agreed);
  CHECK(!judge_maps(three, true, held_by(5, two, one)).agreed);
  std::vector<HeldMap> held = held_by(3, two, other);
  held[5].map = three;
  const auto verdict = judge_maps(nullptr, false, held);
  CHECK(verdict.majority);
  CHECK(!verdict.agreed);
}

TEST_CASE("a head that lost volumes which the map that is held has is not followed") {
  const Map one = first_map();
  ClusterMap wider = *one;
  wider.volumes.push_back(wider.volumes[0]);
  wider.volumes.back().id = VolumeId{7};
  wider.volumes.back().name = "added";
  const Map two = shared(past_epoch(std::move(wider), one->epoch));
  const Map lost = after(after(one, "a"), "b");
  REQUIRE(lost->epoch > two->epoch);
  const auto verdict = judge_maps(lost, true, held_by(kVolumes, two, two));
  CHECK(verdict.trouble == MapTrouble::source_lacks_volumes);
  CHECK(verdict.meaning.find("added") != std::string::npos);
  CHECK(verdict.follow == two);
  CHECK(forbids_change(verdict.trouble));
  CHECK(judge_maps(after(after(two)), true, held_by(kVolumes, two, two)).trouble ==
        MapTrouble::none);
  // One that was replaced may be missing.
  MapVolume joining;
  joining.id = VolumeId{8};
  joining.name = "joining";
  joining.host = "host1";
  const Map joint = shared(begin_replacement(*one, VolumeId{1}, joining));
  ClusterMap ended = *joint;
  CHECK(find_lost(*one, *joint)->id == VolumeId{8});
  std::erase_if(ended.volumes, [](const MapVolume& volume) { return volume.id == VolumeId{1}; });
  CHECK(find_lost(ended, *joint) == nullptr);
}

TEST_CASE("of two maps of one epoch the head goes on only if the other one cannot be held") {
  const Map one = first_map();
  const Map two = after(one, "a");
  const Map other = after(one, "b");
  auto held = held_by(3, two, other);
  for (const Map& head : {two, other}) {
    const auto verdict = judge_maps(head, true, held);
    CHECK(verdict.follow == head);
    CHECK_FALSE(verdict.majority);
    CHECK(verdict.trouble == MapTrouble::volumes_forked);
  }
  SUBCASE("those who are silent may be its majority") {
    held = held_by(2, two, other);
    held[2].answered = false;
    const auto verdict = judge_maps(two, true, held);
    CHECK(verdict.trouble != MapTrouble::volumes_forked);
  }
  SUBCASE("a volume that has a newer one may know that it is held") {
    held = held_by(2, two, other);
    held[3].map = after(two);
    for (const std::size_t silent : {4, 5}) held[silent] = {VolumeId{silent + 1}, nullptr, false};
    CHECK(judge_maps(two, true, held).trouble == MapTrouble::no_majority);
    held[3].map = two;
    CHECK(judge_maps(two, true, held).trouble != MapTrouble::no_majority);
  }
  SUBCASE("a head that no volume has says nothing of the two") {
    const auto verdict = judge_maps(after(one, "c"), true, held);
    CHECK(verdict.trouble == MapTrouble::no_majority);
  }
  SUBCASE("nor does the source where it is empty") {
    CHECK(judge_maps(nullptr, true, held).trouble == MapTrouble::no_majority);
  }
}

TEST_CASE("no map anywhere is no trouble") {
  const auto verdict = judge_maps(nullptr, true, held_by(kVolumes, nullptr, nullptr));
  CHECK(verdict.follow == nullptr);
  CHECK(verdict.trouble == MapTrouble::none);
}

TEST_CASE("both lists of a change must hold its map") {
  const Map one = first_map();
  MapVolume joining;
  joining.id = VolumeId{7};
  joining.name = "joining";
  const Map joint = shared(begin_replacement(*one, VolumeId{1}, joining));
  // The old lists hold the map at three of five each, the new ones need the joining volume as well.
  std::vector<HeldMap> held = held_by(4, joint, one);
  CHECK(judge_maps(nullptr, false, held).follow == one);
  held.push_back({VolumeId{7}, joint, true});
  held[4].map = joint;
  CHECK(judge_maps(nullptr, false, held).follow == joint);
}

TEST_CASE("two maps of one epoch at the volumes are told, and the next map gets past both") {
  const Map one = first_map();
  const Map two = after(one);
  const Map other = after(one, "elsewhere");
  const auto verdict = judge_maps(two, true, held_by(5, two, other));
  CHECK(verdict.follow == two);
  CHECK(verdict.trouble == MapTrouble::volumes_forked);
  const auto next = past_epoch(*two, Epoch{7});
  REQUIRE(next);
  CHECK(next->epoch == Epoch{8});
  for (const MapGroup& group : next->groups) CHECK(group.epoch == Epoch{8});
  CHECK(past_epoch(*next, Epoch{7})->digest == next->digest);
}

TEST_CASE("beside a source that holds no map, what majorities hold counts, and nobody changes it") {
  const Map one = first_map();
  const auto verdict = judge_maps(nullptr, true, held_by(kVolumes, one, one), "garbage");
  CHECK(verdict.follow == one);
  CHECK(verdict.trouble == MapTrouble::source_damaged);
  CHECK(verdict.meaning.find("garbage") != std::string::npos);
  CHECK(verdict.meaning.find("ring restore") != std::string::npos);
  CHECK(forbids_change(verdict.trouble));
  const auto nobody = judge_maps(nullptr, true, held_by(kVolumes, nullptr, nullptr), "garbage");
  CHECK(nobody.follow == nullptr);
  CHECK(nobody.trouble == MapTrouble::source_damaged);
}

TEST_CASE("a volume contradicts a head that cannot have come after the map that it holds") {
  const Map one = first_map();
  const Map two = after(one);
  ClusterMap wider = *one;
  wider.volumes.push_back(wider.volumes[0]);
  wider.volumes.back().id = VolumeId{99};
  wider.volumes.back().name = "added";
  const Map with_more = shared(past_epoch(std::move(wider), one->epoch));
  const auto says = [](const Map& map, bool answered = true) {
    return std::vector<HeldMap>{{VolumeId{1}, map, answered}};
  };
  CHECK(!is_contradicted(*two, {}));
  CHECK(!is_contradicted(*two, says(nullptr, false)));
  CHECK(!is_contradicted(*two, says(nullptr)));
  CHECK(!is_contradicted(*two, says(one)));
  CHECK(!is_contradicted(*two, says(two)));
  CHECK(is_contradicted(*one, says(two)));
  CHECK(is_contradicted(*two, says(after(one, "elsewhere"))));
  CHECK(is_contradicted(*after(two), says(with_more)));
}

}  // namespace penstock
