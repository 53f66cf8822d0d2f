#include "server/membership/start_admission.h"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/fake/fake_volume.h"

namespace penstock {
namespace {

ClusterMap map_of(std::size_t volumes, std::size_t per_host, std::uint64_t first = 1) {
  std::vector<MapVolume> entries;
  for (std::size_t i = 0; i < volumes; ++i) {
    MapVolume entry;
    entry.id = VolumeId{first + i};
    entry.name = "v" + std::to_string(i);
    entry.host = "h" + std::to_string(i / per_host);
    entries.push_back(entry);
  }
  auto map = make_map(ClusterId{1, 2}, std::move(entries), 4);
  REQUIRE(map);
  return std::move(*map);
}

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
    CHECK(quorum.counted.size() == row.counted);
    CHECK(quorum.enough == row.enough);
    const std::size_t lost = map.policy.losses_survived() *
                             (map.failure_domains() < row.volumes ? row.per_host : std::size_t{1});
    CHECK(quorum.enough + lost <= std::max(row.counted, lost));
  }
  CHECK(admission_quorum(map_of(6, 1), VolumeId{99}).peers.empty());
}

TEST_CASE("who noted a start and who is asked later meet, but where half of the others must do") {
  for (const std::size_t volumes : {4, 6, 7, 8, 9, 10, 12}) {
    CAPTURE(volumes);
    const AdmissionQuorum quorum = admission_quorum(map_of(volumes, 1), VolumeId{1});
    CHECK(2 * quorum.enough > quorum.counted.size());
  }
}

class FakeStart final : public StartingVolume {
 public:
  VolumeId id() const override { return VolumeId{1}; }
  std::uint64_t start() const override { return counter + 1; }
  std::uint64_t map_hash() const override { return penstock::map_hash(text); }
  std::string map() const override { return text; }
  bool waits() const override { return waiting; }
  Task<> count_start() override {
    if (before_count) before_count();
    if (count_fails) co_return fail(Errc::io, "a fault of the test");
    ++counted;
    co_return Result<>{};
  }
  void wait_for(std::string reason) override {
    waiting = true;
    why = std::move(reason);
  }
  void admit(bool asked) override {
    waiting = false;
    member = asked;
    ++admitted;
  }
  void refuse(std::string reason) override { refused = std::move(reason); }

  std::uint64_t counter = 4;
  std::string text;
  bool waiting = true;
  bool member = false;
  int counted = 0;
  int admitted = 0;
  bool count_fails = false;
  std::function<void()> before_count;
  std::string why;
  std::string refused;
};

struct World {
  explicit World(std::size_t volumes = 6) : map(map_of(volumes, 1)) {
    start->text = map.to_json();
    for (std::size_t i = 1; i < volumes; ++i) add(VolumeId{1 + i});
  }
  ~World() {
    if (admission) admission->stop();
    run_for(std::chrono::seconds(5));
  }
  void add(VolumeId id) {
    peers[id] = std::make_shared<FakeVolume>(id, clock, io);
    peers[id]->acceptor.map = std::make_shared<const std::string>(start->text);
  }
  std::shared_ptr<StartAdmission> make(bool alone = false) {
    AdmissionParts parts{clock, start, "this boot", {}, alone};
    parts.process = process;
    parts.connect = [this](const MapVolume& peer) -> std::shared_ptr<VolumeClient> {
      const auto found = peers.find(peer.id);
      if (found == peers.end()) return nullptr;
      return found->second;
    };
    return std::make_shared<StartAdmission>(std::move(parts));
  }
  void begin() {
    admission = make();
    boost::asio::co_spawn(io, run(admission), boost::asio::detached);
  }
  static Awaitable<void> run(std::shared_ptr<StartAdmission> admission) {
    co_await admission->run();
  }
  void run_for(Duration time) {
    const BootTime until = clock.boot() + time;
    run_until(io, clock, [this, until] { return clock.boot() >= until; });
  }
  FakeAcceptor& peer(std::uint64_t id) { return peers[VolumeId{id}]->acceptor; }
  void lose(std::uint64_t id) { peer(id).state = VolumeStatus::State::missing; }
  void bring(std::uint64_t id) { peer(id).state = VolumeStatus::State::open; }
  std::size_t noted(const std::string& starts) {
    std::size_t count = 0;
    for (const auto& [id, volume] : peers) {
      const auto found = volume->acceptor.notes.find(starts_note(VolumeId{1}));
      count += found != volume->acceptor.notes.end() && found->second == starts ? 1 : 0;
    }
    return count;
  }

  boost::asio::io_context io;
  FakeClock clock;
  ClusterMap map;
  std::string process;
  std::shared_ptr<FakeStart> start = std::make_shared<FakeStart>();
  std::map<VolumeId, std::shared_ptr<FakeVolume>> peers;
  std::shared_ptr<StartAdmission> admission;
};

constexpr Duration kSoon = std::chrono::milliseconds(100);
constexpr Duration kLater = std::chrono::seconds(5);

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
}

TEST_CASE("a newer map of a peer says who is asked") {
  World world;
  // Five others of a later map, of which the copy knows one only.
  ClusterMap later = map_of(6, 1);
  for (std::size_t i = 1; i < 5; ++i) {
    const VolumeId gone = later.volumes[i].id;
    later.volumes[i].id = VolumeId{20 + i};
    for (MapGroup& group : later.groups) {
      for (VolumeId& replica : group.replicas)
        replica = replica == gone ? VolumeId{20 + i} : replica;
    }
  }
  later.epoch = Epoch{later.epoch.value + 1};
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

TEST_CASE("one that no map names serves at once; its first map makes it ask") {
  World world;
  const std::string text = std::exchange(world.start->text, "");
  for (std::uint64_t id : {2, 3, 4}) world.lose(id);
  world.begin();
  world.run_for(kSoon);
  CHECK(world.start->admitted == 1);
  CHECK_FALSE(world.start->member);
  CHECK(world.start->counted == 0);
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
