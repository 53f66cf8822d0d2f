#include "server/node/volume_admissions.h"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <thread>

#include "tests/fake/fake_volume.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

// A volume of three, which starts; the other two are there.
struct AdmissionsWorld {
  VolumeHarness h;
  std::map<VolumeId, std::shared_ptr<FakeVolume>> peers;
  VolumeSlots slots;

  AdmissionsWorld() {
    std::vector<MapVolume> entries(3);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i].id = i == 0 ? kVolume : VolumeId{i};
      entries[i].name = entries[i].host = "v" + std::to_string(i);
    }
    const auto map = make_map(kCluster, std::move(entries), 4);
    REQUIRE(map);
    LoopWorker worker(h.io);
    auto view = h.disk.share();
    REQUIRE(format_volume(*view, h.clock, h.random, worker, {kCluster, kVolume}, map->to_json()));
    VolumeOptions later = VolumeHarness::options();
    later.count_start = CountStart::later;
    auto opened = h.try_open(later);
    REQUIRE(opened);
    slots.push_back(std::make_shared<VolumeSlot>());
    slots.front()->volume = std::move(*opened);
    slots.front()->entry.id = kVolume;
    for (const VolumeId id : {VolumeId{1}, VolumeId{2}}) {
      peers[id] = std::make_shared<FakeVolume>(id, h.clock, h.io);
      peers[id]->acceptor.map = std::make_shared<const std::string>(map->to_json());
    }
  }
  // The thread that counted the start may still hold the volume when its answer is here.
  ~AdmissionsWorld() {
    while (slots.front()->volume.use_count() > 1) std::this_thread::yield();
    slots.front()->volume->close();
  }
  bool is_open() const {
    return slots.front()->volume->status().state == VolumeStatus::State::open;
  }
  // A start is counted on a thread of its own, of which the clock knows nothing: were it to jump
  // meanwhile, the test would end before that thread does. So whoever waits here waits for the
  // thread, and no time passes. False: nothing comes.
  bool wait_until_open() {
    constexpr auto kHangs = std::chrono::seconds(30);
    h.io.restart();
    while (!is_open()) {
      if (h.io.run_one_for(kHangs) == 0) return false;
    }
    return true;
  }
  void run_for(Duration time) {
    const BootTime until = h.clock.boot() + time;
    h.io.restart();
    run_until(h.io, h.clock, [&] { return h.clock.boot() >= until; });
  }
};

}  // namespace

TEST_CASE(
    "the start of a volume is noted as that of its process, so that a copy's is another one") {
  AdmissionsWorld world;
  const auto connect = [&world](const MapVolume& peer) -> std::shared_ptr<VolumeClient> {
    return world.peers.at(peer.id);
  };
  const auto followed = [] { return std::shared_ptr<const ClusterMap>(); };
  VolumeAdmissions admissions(world.h.io, world.h.clock, "boot", "of this process", world.slots,
                              connect, followed);
  admissions.begin();
  const bool open = world.wait_until_open();
  CHECK_MESSAGE(open, world.slots.front()->volume->status().reason);
  for (const auto& [id, peer] : world.peers) {
    const std::string noted = peer->acceptor.notes[starts_note(kVolume)];
    CHECK(noted.ends_with(":of this process"));
  }
  admissions.stop();
  world.run_for(std::chrono::seconds(1));
}

}  // namespace penstock
