#include "server/membership/start_admission.h"

#include <doctest/doctest.h>

#include "tests/unit/membership/admission_world.h"

namespace penstock {
namespace {

TEST_CASE("with as many lost as a map survives, a volume is admitted still; else most are asked") {
  struct Row {
    std::size_t volumes, per_host, counted, enough;
  };
  constexpr Row kRows[] = {{1, 1, 0, 0}, {3, 1, 2, 1}, {4, 1, 3, 2}, {5, 1, 4, 2},
                           {6, 1, 5, 3}, {7, 1, 6, 4}, {9, 1, 8, 5}, {12, 1, 11, 6},
                           {6, 6, 5, 3}, {6, 3, 5, 3}, {6, 2, 4, 2}, {12, 2, 10, 6}};
  for (const Row& row : kRows) {
    CAPTURE(row.volumes);
    CAPTURE(row.per_host);
    const ClusterMap map = map_of(row.volumes, row.per_host);
    const AdmissionQuorum quorum = admission_quorum(map, VolumeId{1});
    CHECK(quorum.peers.size() == row.volumes - 1);
    CHECK(quorum.weights.size() == row.counted);
    const std::uint64_t one = quorum.weights.empty() ? 1 : quorum.weights.begin()->second;
    CHECK((quorum.enough + one - 1) / one == row.enough);
    const std::size_t lost = map.policy.losses_survived() *
                             (map.failure_domains() < row.volumes ? row.per_host : std::size_t{1});
    CHECK(row.enough + lost <= std::max(row.counted, lost));
  }
  CHECK(admission_quorum(map_of(6, 1), VolumeId{99}).peers.empty());
}

TEST_CASE("who noted a start and who is asked later meet, but where half of the others must do") {
  for (const std::size_t volumes : {4, 6, 7, 8, 9, 10, 12}) {
    CAPTURE(volumes);
    const AdmissionQuorum quorum = admission_quorum(map_of(volumes, 1), VolumeId{1});
    CHECK(2 * quorum.enough > weight_of_all(quorum));
  }
}

// A host of four volumes beside six of one, and of one beside hosts of one to three.
TEST_CASE("a host with more volumes than others says no more than they do") {
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{1, 1, 1, 1, 1, 1, 4},
                                                {1, 3, 2, 1, 3, 1},
                                                {2, 1, 17, 5, 1, 1, 1}}) {
    const ClusterMap map = map_of_hosts(sizes);
    const AdmissionQuorum quorum = admission_quorum(map, VolumeId{1});
    CHECK(2 * quorum.enough > weight_of_all(quorum));  // so two that are enough meet
    for (std::size_t a = 1; a < sizes.size(); ++a) {
      std::uint64_t alone = 0, without = 0;
      for (const MapVolume& volume : quorum.peers) {
        const auto weight = quorum.weights.find(volume.id);
        if (weight == quorum.weights.end()) continue;
        (volume.host == "h" + std::to_string(a) ? alone : without) += weight->second;
      }
      CHECK(alone < quorum.enough);
      CHECK(without >= quorum.enough);
    }
  }
}

TEST_CASE("with hosts of unequal size it says of how many it waits for the volumes") {
  World world(map_of_hosts({1, 1, 1, 1, 1, 1, 4}));
  for (std::uint64_t id = 2; id <= 6; ++id) world.lose(id);
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  CHECK(world.start->why.find("waits for the volumes of 4 of 6 other hosts") == 0);
  CHECK(world.start->why.find("; 4 volumes did, not yet: v1") != std::string::npos);
  for (const std::uint64_t id : {2, 3, 4}) world.bring(id);
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
}

TEST_CASE("a volume whose peers are all there is admitted at once, and all note its start") {
  World world;
  world.begin();
  world.run_for(kSoon);
  CHECK(world.start->admitted == 1);
  CHECK(world.start->member);
  CHECK(world.start->counted == 1);
  world.run_for(kLater);
  CHECK(world.noted("5") == 5);
  CHECK(world.start->admitted == 1);
}

TEST_CASE("it waits for enough of them and says for whom, counts nothing, and goes on by itself") {
  World world;
  for (std::uint64_t id : {2, 3, 4}) world.lose(id);
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  CHECK(world.start->counted == 0);
  CHECK(world.start->why.find("waits for 3 of 5 other volumes") == 0);
  CHECK(world.start->why.find("not yet: v1, v2, v3") != std::string::npos);
  world.bring(2);
  world.run_for(std::chrono::milliseconds(300));
  CHECK(world.start->admitted == 1);
  CHECK(world.noted("5") == 3);
  world.bring(3);
  world.bring(4);
  world.run_for(kLater);
  CHECK(world.noted("5") == 5);
}

TEST_CASE("one peer that has seen a later start, or this one, is enough to refuse it") {
  for (const std::string seen : {"5", "17"}) {
    for (std::uint64_t who = 2; who <= 6; ++who) {
      CAPTURE(who);
      World world;
      for (std::uint64_t id = 2; id <= 6; ++id)
        world.peer(id).notes[starts_note(VolumeId{1})] = "4";
      world.peer(who).notes[starts_note(VolumeId{1})] = seen;
      for (std::uint64_t id = 2, lost = 0; lost < 2; ++id) {  // as many as may be
        if (id == who) continue;
        world.lose(id);
        ++lost;
      }
      world.begin();
      world.run_for(kLater);
      CHECK(world.start->refused.find(
                "it is an old copy: this would be its start number 5, but v") == 0);
      CHECK(world.start->counted == 0);
      CHECK(world.start->admitted == 0);
    }
  }
}

TEST_CASE("a failure in this boot of the machine keeps it out, one in an earlier boot does not") {
  World world;
  world.peer(4).notes[failure_note(VolumeId{1})] = "the boot before";
  SUBCASE("earlier") {
    world.begin();
    world.run_for(kLater);
    CHECK(world.start->admitted == 1);
  }
  SUBCASE("this one") {
    world.peer(6).notes[failure_note(VolumeId{1})] = "this boot";
    for (std::uint64_t id : {2, 3}) world.lose(id);
    world.begin();
    world.run_for(kLater);
    CHECK(world.start->refused.find("it failed since the machine was booted") == 0);
  }
}

TEST_CASE("a start that enough peers could not note is not admitted") {
  World world;
  for (std::uint64_t id : {2, 3, 4}) world.peer(id).takes_notes = false;
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->admitted == 0);
  CHECK(world.start->why.find("other volumes to note its start; 2 did") != std::string::npos);
  world.peer(3).takes_notes = true;
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
  CHECK(world.start->counted == 1);
}

TEST_CASE("with three volumes one other is enough, but both are heard if they are there") {
  World world(3);
  SUBCASE("one is lost") {
    world.lose(2);
    world.begin();
    world.run_for(kSoon);
    CHECK(world.start->admitted == 0);
    world.run_for(std::chrono::seconds(2));
    CHECK(world.start->admitted == 1);
  }
  SUBCASE("the one that comes a little later knows better") {
    world.lose(2);
    world.peer(2).notes[starts_note(VolumeId{1})] = "9";
    world.begin();
    world.run_for(kSoon);
    world.bring(2);
    world.run_for(kLater);
    CHECK(world.start->refused.find("number 9") != std::string::npos);
  }
  SUBCASE("the first comes long after it has begun, and the other one knows better") {
    world.lose(2);
    world.lose(3);
    world.peer(2).notes[starts_note(VolumeId{1})] = "9";
    world.begin();
    world.run_for(kLater);
    world.bring(3);
    world.run_for(std::chrono::milliseconds(700));
    CHECK(world.start->admitted == 0);
    world.bring(2);
    world.run_for(kLater);
    CHECK(world.start->refused.find("number 9") != std::string::npos);
    CHECK(world.start->counted == 0);
  }
}

TEST_CASE("one that no map names serves at once; its first map makes it ask") {
  World world;
  const std::string text = std::exchange(world.start->text, "");
  SUBCASE("its process follows none") {}
  SUBCASE("its process follows one") {
    world.followed = std::make_shared<const ClusterMap>(world.map);
  }
  for (std::uint64_t id : {2, 3, 4}) world.lose(id);
  world.begin();
  world.run_for(kSoon);
  CHECK(world.start->admitted == 1);
  CHECK_FALSE(world.start->member);
  CHECK(world.start->counted == 0);
  CHECK(world.noted("5") == 0);
  world.start->text = text;
  world.start->waiting = true;  // as Volume::adopt() does
  world.run_for(kLater);
  CHECK(world.start->admitted == 1);
  world.bring(2);
  world.run_for(kLater);
  CHECK(world.start->admitted == 2);
  CHECK(world.start->member);
  CHECK(world.start->counted == 1);
}

// Were it told, the next start would have the same number, and be refused for ever.
TEST_CASE("nobody hears of a start that is not counted, of one that failed with its first map") {
  World world;
  const std::string text = std::exchange(world.start->text, "");
  world.begin();
  world.run_for(kSoon);
  REQUIRE(world.start->admitted == 1);
  world.start->text = text;
  world.start->waiting = false;  // Volume::adopt() makes it wait, but a volume that fails does not
  world.run_for(kLater);
  CHECK(world.start->counted == 0);
  CHECK(world.noted("5") == 0);
}

TEST_CASE("a peer that has noted this start before it was asked knows of no other one") {
  World world;
  bool same_process = true;
  SUBCASE("of this process") { same_process = true; }
  SUBCASE("of another one") { same_process = false; }
  world.process = "this process";
  for (std::uint64_t id : {2, 3}) {
    world.peer(id).notes[starts_note(VolumeId{1})] =
        starts_text(5, same_process ? "this process" : "another one");
  }
  world.begin();
  world.run_for(kLater);
  CHECK(world.start->refused.empty() == same_process);
  CHECK(world.start->admitted == (same_process ? 1 : 0));
}

TEST_CASE("a copy from before its first map stays out, however often it is started") {
  World world;
  const std::string text = std::exchange(world.start->text, "");
  for (std::uint64_t id : {2, 3, 4}) world.peer(id).notes[starts_note(VolumeId{1})] = "5";
  world.begin();
  world.run_for(kSoon);
  world.start->text = text;
  world.start->waiting = true;
  world.run_for(kLater);
  CHECK(world.start->counted == 0);  // it would be ahead of the others at its next start
  CHECK(world.start->refused.find("it is an old copy") == 0);
}

TEST_CASE("a failure is told to each peer as soon as it is there") {
  World world;
  world.begin();
  world.run_for(kLater);
  world.lose(2);
  world.admission->tell_failure();
  world.run_for(kLater);
  CHECK(world.peer(3).notes[failure_note(VolumeId{1})] == "this boot");
  CHECK_FALSE(world.peer(2).notes.contains(failure_note(VolumeId{1})));
  world.bring(2);
  world.run_for(kLater);
  CHECK(world.peer(2).notes[failure_note(VolumeId{1})] == "this boot");
}

TEST_CASE("a failure that is found just before the stop is told still, once") {
  World world;
  world.begin();
  world.run_for(kLater);
  world.lose(2);
  world.admission->tell_failure();
  world.admission->stop();
  world.run_for(kLater);
  CHECK(world.peer(3).notes[failure_note(VolumeId{1})] == "this boot");
  world.bring(2);
  world.run_for(kLater);
  CHECK_FALSE(world.peer(2).notes.contains(failure_note(VolumeId{1})));
}

TEST_CASE("where all volumes are one process's, nobody is waited for") {
  World world;
  for (std::uint64_t id : {2, 3, 4, 5, 6}) world.peers.erase(VolumeId{id});
  world.add(VolumeId{4});
  const auto admission = world.make(true);
  CHECK(run_task(world.io, world.clock, admission->settle()));
  CHECK(world.start->admitted == 1);
  CHECK(world.noted("5") == 1);
}

TEST_CASE("a start that cannot be counted is refused") {
  World world;
  world.start->count_fails = true;
  const auto admission = world.make();
  CHECK_FALSE(run_task(world.io, world.clock, admission->settle()));
  CHECK(world.start->refused.find("its start cannot be counted") == 0);
}

}  // namespace
// A disk that was copied, and both machines started with it.
TEST_CASE("of two copies that start with one number at most one is admitted") {
  World world;
  for (const std::uint64_t id : {2, 3, 4, 5, 6}) world.peer(id).takes_notes = false;
  world.begin();
  world.run_for(std::chrono::seconds(3));
  CHECK(world.start->admitted == 0);  // all of them have said that it is no old copy
  for (const std::uint64_t id : {2, 3, 4, 5, 6}) {
    world.peer(id).takes_notes = true;
    if (id < 5) world.peer(id).notes[starts_note(VolumeId{1})] = starts_text(5, "the other");
  }
  world.run_for(std::chrono::seconds(3));
  CHECK(world.start->admitted == 0);
  CHECK(world.start->refused.find("another copy") != std::string::npos);
  CHECK(world.peer(2).notes[starts_note(VolumeId{1})] == "5:the other");
}

TEST_CASE(
    "a start that was noted by an older release is known, and what a process notes is its own") {
  CHECK(noted_starts("7") == 7u);
  CHECK(noted_starts(starts_text(7, "a")) == 7u);
  CHECK(!noted_starts("a:7"));
  const std::string name = starts_note(VolumeId{1});
  CHECK(!is_outdated(name, "7:a", "7:a"));
  CHECK(is_outdated(name, "7:a", "7:b"));
  CHECK(is_outdated(name, "7", "7:b"));
  CHECK(!is_outdated(name, "7:a", "8:b"));
  CHECK(is_outdated(name, "8:b", "7:a"));
}

}  // namespace penstock
