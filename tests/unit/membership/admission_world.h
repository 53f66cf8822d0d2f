// A volume that starts, its peers, and what its admission makes of them.
#pragma once
#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/membership/start_admission.h"
#include "tests/fake/fake_volume.h"

namespace penstock {

// The first host has the first volumes, and so on.
inline ClusterMap map_of_hosts(const std::vector<std::size_t>& sizes, std::uint64_t first = 1) {
  std::vector<MapVolume> entries;
  for (std::size_t host = 0; host < sizes.size(); ++host) {
    for (std::size_t i = 0; i < sizes[host]; ++i) {
      MapVolume entry;
      entry.id = VolumeId{first + entries.size()};
      entry.name = "v" + std::to_string(entries.size());
      entry.host = "h" + std::to_string(host);
      entries.push_back(entry);
    }
  }
  auto map = make_map(ClusterId{1, 2}, std::move(entries), 4);
  REQUIRE(map);
  return std::move(*map);
}

inline ClusterMap map_of(std::size_t volumes, std::size_t per_host, std::uint64_t first = 1) {
  return map_of_hosts(std::vector<std::size_t>(volumes / per_host, per_host), first);
}

inline std::uint64_t weight_of_all(const AdmissionQuorum& quorum) {
  std::uint64_t sum = 0;
  for (const auto& [id, weight] : quorum.weights) sum += weight;
  return sum;
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
  explicit World(std::size_t volumes = 6) : World(map_of(volumes, 1)) {}
  explicit World(ClusterMap made) : map(std::move(made)) {
    start->text = map.to_json();
    for (std::size_t i = 1; i < map.volumes.size(); ++i) add(VolumeId{1 + i});
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
    parts.followed = [this] { return followed; };
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
  std::shared_ptr<const ClusterMap> followed;  // by the process
  std::shared_ptr<FakeStart> start = std::make_shared<FakeStart>();
  std::map<VolumeId, std::shared_ptr<FakeVolume>> peers;
  std::shared_ptr<StartAdmission> admission;
};

inline constexpr Duration kSoon = std::chrono::milliseconds(100);
inline constexpr Duration kLater = std::chrono::seconds(5);

}  // namespace penstock
