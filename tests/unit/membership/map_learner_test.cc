#include "server/membership/map_learner.h"

#include <doctest/doctest.h>

#include "placement/map_change.h"
#include "tests/fake/fake_volume.h"

namespace penstock {
namespace {

using Map = std::shared_ptr<const ClusterMap>;

MapVolume entry_of(std::uint64_t id) {
  MapVolume entry;
  entry.id = VolumeId{id};
  entry.name = "v" + std::to_string(id);
  entry.host = "h" + std::to_string(id);
  entry.address = entry.host + ":1";
  return entry;
}

Map made(Result<ClusterMap> map) {
  REQUIRE(map);
  return std::make_shared<const ClusterMap>(std::move(*map));
}

// `leaving` has made room for `joining`.
Map replaced(const Map& map, std::uint64_t leaving, std::uint64_t joining) {
  const Map joint = made(begin_replacement(*map, VolumeId{leaving}, entry_of(joining)));
  return made(end_replacement(*made(end_joint(*joint))));
}

// A process at the map of three volumes, which others have changed meanwhile.
struct Harness {
  Harness() {
    for (std::uint64_t id : {1, 2, 3, 4, 5}) {
      volumes[VolumeId{id}] = std::make_shared<FakeVolume>(VolumeId{id}, clock, io);
      hold(id, first);
    }
    auto connect = [this](const MapVolume& volume) -> std::shared_ptr<VolumeClient> {
      ++connected;
      return volumes.at(volume.id);
    };
    std::vector<std::shared_ptr<VolumeClient>> own;
    for (std::uint64_t id : {1, 2, 3}) own.push_back(volumes[VolumeId{id}]);
    membership = std::make_unique<Membership>(first, Ring::build(*first).value(), std::move(own),
                                              clock, std::move(connect));
    learner = std::make_unique<MapLearner>(*membership, clock);
  }
  ~Harness() { run_all(io, clock); }
  void hold(std::uint64_t id, const Map& map) {
    volumes[VolumeId{id}]->acceptor.map = std::make_shared<const std::string>(map->to_json());
  }
  void lose(std::uint64_t id) { volumes[VolumeId{id}]->go_missing(); }
  static Task<> learn_once(MapLearner& learner) {
    co_await learner.learn();
    co_return Result<>{};
  }
  Epoch learned() {
    REQUIRE(run_task(io, clock, learn_once(*learner)));
    return membership->map()->epoch;
  }

  boost::asio::io_context io;
  FakeClock clock;
  Map first = made(make_map(ClusterId{1, 2}, {entry_of(1), entry_of(2), entry_of(3)}, 4));
  std::map<VolumeId, std::shared_ptr<FakeVolume>> volumes;
  int connected = 0;
  std::unique_ptr<Membership> membership;
  std::unique_ptr<MapLearner> learner;
};

}  // namespace

TEST_CASE("behind a replacement and a loss the newer map is learned from the volumes it names") {
  Harness h;
  const Map next = replaced(h.first, 2, 4);
  h.hold(1, next);
  h.hold(4, next);
  h.lose(3);
  CHECK(h.learned() == next->epoch);
  CHECK(h.membership->volume(VolumeId{4}) == h.volumes[VolumeId{4}]);
  CHECK(h.connected == 1);
}

TEST_CASE("behind two replacements they are asked in rounds") {
  Harness h;
  const Map next = replaced(h.first, 2, 4);
  const Map last = replaced(next, 3, 5);
  h.hold(1, next);
  h.hold(4, last);
  h.hold(5, last);
  h.lose(2);
  h.lose(3);
  CHECK(h.learned() == last->epoch);
}

TEST_CASE("a newer map that a minority of its volumes holds is not learned") {
  Harness h;
  h.hold(1, replaced(h.first, 2, 4));
  h.lose(3);
  CHECK(h.learned() == h.first->epoch);
  CHECK(h.learned() == h.first->epoch);
  CHECK(h.connected == 1);  // the volume that it names was asked, by one client
  CHECK(h.membership->volume(VolumeId{4}) == nullptr);
}

TEST_CASE("volumes of older maps are not asked") {
  Harness h;
  const Map next = replaced(h.first, 2, 4);
  REQUIRE(h.membership->adopt(next));
  h.connected = 0;
  h.hold(1, replaced(h.first, 2, 5));  // as old as the own one
  CHECK(h.learned() == next->epoch);
  CHECK(h.connected == 0);
}

}  // namespace penstock
