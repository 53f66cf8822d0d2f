#include "server/transport/remote_servers.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/log.h"
#include "server/transport/places.h"
#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

const std::string kOld = "127.0.0.1:1";
const std::string kNew = "127.0.0.1:2";
const std::string kOther = "127.0.0.1:3";

wire::Place place(std::uint64_t volume, const std::string& address, std::uint64_t start = 1,
                  std::uint64_t since = 1) {
  return {VolumeId{volume}, start, since, address};
}

TEST_CASE("of two places the later start counts, then the later process") {
  Places places;
  CHECK(places.take(place(3, kOld, 5, 10)));
  CHECK_FALSE(places.take(place(3, kNew, 4, 99)));
  CHECK_FALSE(places.take(place(3, kNew, 5, 10)));
  CHECK_FALSE(places.take(place(3, kNew, 5, 9)));
  CHECK(places.find(VolumeId{3})->address == kOld);
  CHECK(places.take(place(3, kNew, 5, 11)));
  CHECK(places.take(place(3, kOther, 6, 1)));
  CHECK(places.find(VolumeId{3})->address == kOther);
  CHECK_FALSE(places.names(kOld));
  CHECK_FALSE(places.take(place(0, kOld)));
  CHECK_FALSE(places.take(place(4, "nowhere")));
  CHECK_FALSE(places.find(VolumeId{4}));
}

TEST_CASE("no more places are kept than a process may remember") {
  Places places;
  for (std::uint64_t id = 1; id <= limits::kPlacesMax; ++id) REQUIRE(places.take(place(id, kOld)));
  CHECK_FALSE(places.take(place(limits::kPlacesMax + 1, kOld)));
  CHECK(places.take(place(7, kNew, 2)));
  CHECK(places.all().size() == limits::kPlacesMax);
}

// Servers at addresses, each with volumes, and one process that calls them.
struct World {
  struct Site {
    std::vector<std::shared_ptr<VolumeClient>> volumes;
    std::vector<wire::Place> places;  // that it passes on
    std::vector<wire::Place> heard;
    bool leaves = false;
    std::string key;  // of its cluster
  };
  explicit World(PeerRole role = PeerRole::gateway) {
    parts = std::make_shared<LinkParts>(
        LinkParts{clock, random, buffers, {}, make_terms(role), {}, {}, {}});
    parts->dial = [this](std::string address) { return dial(std::move(address)); };
  }
  ~World() {
    if (servers) servers->stop();
    for (const auto& connection : served) connection->close();
    run_for(std::chrono::seconds(40));
  }
  void begin() {
    servers = std::make_unique<RemoteServers>(std::vector<boost::asio::io_context*>{&io}, parts);
  }
  std::shared_ptr<FakeVolume> add(const std::string& address, std::uint64_t id) {
    auto volume = std::make_shared<FakeVolume>(VolumeId{id}, clock, io);
    sites[address].volumes.push_back(volume);
    return volume;
  }
  Task<std::unique_ptr<ByteStream>> dial(std::string address) {
    ++dials[address];
    const auto found = sites.find(address);
    if (found == sites.end()) co_return fail(Errc::unavailable, "connection refused");
    Site* site = &found->second;
    auto service = std::make_shared<ServiceParts>(ServiceParts{
        clock, random, buffers, make_terms(PeerRole::server, site->key), {}, {}, {}, {}});
    service->volumes = [site] { return site->volumes; };
    service->find = [site](VolumeId id) -> std::shared_ptr<VolumeClient> {
      for (const auto& volume : site->volumes) {
        if (volume->id() == id) return volume;
      }
      return nullptr;
    };
    service->hear = [site](std::vector<wire::Place> heard) { site->heard = std::move(heard); };
    service->places = [site] { return site->places; };
    FakeWire wire;
    auto connection =
        std::make_shared<ServedConnection>(wire.server_end(), io.get_executor(), service);
    served.push_back(connection);
    wires.push_back(wire);
    boost::asio::co_spawn(io, serve(connection), boost::asio::detached);
    co_return wire.client_end();
  }
  static Awaitable<void> serve(std::shared_ptr<ServedConnection> connection) {
    (void)co_await connection->run();
  }
  void run_for(Duration time) {
    const BootTime until = clock.boot() + time;
    run_until(io, clock, [this, until] { return clock.boot() >= until; });
  }

  boost::asio::io_context io;
  FakeClock clock;
  SeededRandom random{7};
  BufferPool buffers{1 << 20};
  std::map<std::string, Site> sites;
  std::map<std::string, int> dials;
  std::shared_ptr<LinkParts> parts;
  std::vector<FakeWire> wires;
  std::vector<std::shared_ptr<ServedConnection>> served;
  std::unique_ptr<RemoteServers> servers;
};

constexpr Duration kSoon = std::chrono::seconds(2);

TEST_CASE("a volume that has moved is found as soon as one of the servers tells of it") {
  World world;
  world.add(kNew, 3);
  world.add(kOther, 5);
  world.begin();
  const auto volume = world.servers->volume(VolumeId{3}, kOld);
  (void)world.servers->volume(VolumeId{5}, kOther);
  world.run_for(kSoon);
  CHECK(volume->status().state == VolumeStatus::State::missing);
  world.sites[kOther].places = {place(3, kNew)};
  world.run_for(kSoon);
  CHECK(volume->status().state == VolumeStatus::State::open);
  CHECK(volume->server()->address() == kNew);
  // What the map says again changes nothing.
  CHECK(world.servers->volume(VolumeId{3}, kOld)->server()->address() == kNew);
}

TEST_CASE("places of volumes that nobody asked for are remembered, and not called") {
  World world;
  world.add(kNew, 3);
  world.add(kOther, 5);
  world.begin();
  (void)world.servers->volume(VolumeId{5}, kOther);
  world.sites[kOther].places = {place(3, kNew), place(7, kOld)};
  world.run_for(std::chrono::seconds(60));
  CHECK(world.dials.count(kNew) == 0);
  CHECK(world.dials.count(kOld) == 0);
  CHECK(world.servers->server_count() == 1);
  CHECK(world.servers->places().size() == 2);
  // From now on a map names it, with an address that it had before.
  const auto volume = world.servers->volume(VolumeId{3}, kOld);
  world.run_for(kSoon);
  CHECK(volume->status().state == VolumeStatus::State::open);
  CHECK(volume->server()->address() == kNew);
}

TEST_CASE("a server with other volumes at an old address is not taken for the one that was there") {
  World world;
  world.add(kOld, 4);
  world.begin();
  const auto volume = world.servers->volume(VolumeId{3}, kOld);
  world.run_for(kSoon);
  CHECK(volume->status().state == VolumeStatus::State::missing);
  CHECK(volume->status().reason.find("has no such volume") != std::string::npos);
  CHECK_FALSE(run_task(world.io, world.clock,
                       volume->read_map(world.clock.boot() + Duration(std::chrono::seconds(1)))));
  world.add(kNew, 3);
  world.servers->hear({place(3, kNew)});
  world.run_for(kSoon);
  CHECK(volume->status().state == VolumeStatus::State::open);
}

TEST_CASE("a server that refuses this process is told from one that is not there") {
  static std::vector<std::string> told;
  set_log_sink([](LogLevel, std::string_view line) {
    if (line.find("server_refused") != std::string_view::npos) told.emplace_back(line);
  });
  World world;
  world.add(kOld, 3);
  world.sites[kOld].key = "another";
  world.begin();
  const auto refusing = world.servers->server(kOld);
  const auto absent = world.servers->server(kNew);
  CHECK_FALSE(refusing->is_refused());
  world.run_for(kSoon);
  CHECK(refusing->is_refused());
  CHECK_FALSE(absent->is_refused());
  world.run_for(std::chrono::seconds(30));
  set_log_sink(nullptr);
  REQUIRE(told.size() == 1);  // however often it is tried
  CHECK(told.front().find("another cluster key") != std::string::npos);
  world.sites[kOld].key.clear();
  world.run_for(std::chrono::seconds(10));
  CHECK_FALSE(refusing->is_refused());
  CHECK(refusing->volumes() == std::vector{VolumeId{3}});
}

TEST_CASE("what is asked for after the stop calls nobody") {
  World world;
  world.add(kOld, 3);
  world.begin();
  (void)world.servers->volume(VolumeId{3}, kOld);
  world.run_for(kSoon);
  CHECK(world.dials[kOld] > 0);
  world.servers->stop();
  const auto late = world.servers->volume(VolumeId{4}, kNew);
  (void)world.servers->volume(VolumeId{3}, kNew);
  (void)world.servers->server(kOther);
  world.servers->hear({place(5, kOther)});
  world.run_for(kSoon);
  CHECK(world.dials[kNew] == 0);
  CHECK(world.dials[kOther] == 0);
  CHECK(late->status().state == VolumeStatus::State::missing);
}

TEST_CASE("a volume stays where it is open, whoever claims it; where it is not, it moves") {
  World world;
  const auto first = world.add(kOld, 3);
  const auto second = world.add(kNew, 3);
  second->acceptor.state = VolumeStatus::State::closed;
  world.begin();
  const auto volume = world.servers->volume(VolumeId{3}, kOld);
  world.servers->hear({place(3, kNew)});
  world.run_for(kSoon);
  CHECK(volume->server()->address() == kOld);
  second->acceptor.state = VolumeStatus::State::open;
  world.run_for(kSoon);
  CHECK(volume->server()->address() == kOld);
  first->acceptor.state = VolumeStatus::State::closed;
  world.run_for(kSoon);
  CHECK(volume->server()->address() == kNew);
}

TEST_CASE("a map that names another address is believed, but for a volume that is where it is") {
  World world;
  world.add(kNew, 3);
  world.begin();
  const auto volume = world.servers->volume(VolumeId{3}, kOld);
  world.run_for(kSoon);
  CHECK(world.servers->volume(VolumeId{3}, kNew)->server()->address() == kNew);
  world.run_for(kSoon);
  CHECK(volume->status().state == VolumeStatus::State::open);
  CHECK(world.servers->volume(VolumeId{3}, kOther)->server()->address() == kNew);
}

TEST_CASE("each connection that is made counts, and each that breaks") {
  World world;
  world.add(kOld, 3);
  world.begin();
  const auto changes = world.servers->connection_changes();
  CHECK(changes->count() == 0);
  (void)world.servers->volume(VolumeId{3}, kOld);
  world.run_for(kSoon);
  constexpr std::uint64_t kEach = 1 + limits::kByteConnections;
  CHECK(changes->count() == kEach);
  world.servers->stop();
  world.run_for(kSoon);
  CHECK(changes->count() == 2 * kEach);
}

TEST_CASE("a server that no map names any more is called no more, and comes back with a map") {
  World world;
  world.add(kOld, 3);
  world.add(kOther, 5);
  world.begin();
  (void)world.servers->volume(VolumeId{3}, kOld);
  (void)world.servers->volume(VolumeId{5}, kOther);
  (void)world.servers->server(kNew);
  world.run_for(kSoon);
  world.servers->keep_only({VolumeId{5}});
  CHECK(world.servers->server_count() == 2);
  world.run_for(kSoon);
  const int dials = world.dials[kOld];
  world.run_for(std::chrono::seconds(20));
  CHECK(world.dials[kOld] == dials);
  const auto volume = world.servers->volume(VolumeId{3}, kOld);
  world.run_for(kSoon);
  CHECK(volume->status().state == VolumeStatus::State::open);
}

TEST_CASE("nobody else says where the own volumes of a process are") {
  World world;
  world.add(kOther, 5);
  world.parts->announcement = [] { return std::vector<wire::Place>{place(3, kOld)}; };
  world.begin();
  (void)world.servers->volume(VolumeId{5}, kOther);
  world.servers->hear({place(3, kNew), place(7, kNew)});
  REQUIRE(world.servers->places().size() == 1);
  CHECK(world.servers->places().front().volume == VolumeId{7});
}

TEST_CASE("an address that is out of date is not called for ever") {
  World world;
  world.begin();
  (void)world.servers->volume(VolumeId{3}, kOld);
  world.servers->hear({place(3, kNew, 1)});
  world.run_for(kSoon);
  CHECK(world.servers->server_count() == 2);
  world.servers->hear({place(3, kOther, 2)});
  world.run_for(kSoon);
  CHECK(world.servers->server_count() == 2);
  const int dials = world.dials[kNew];
  CHECK(dials > 0);
  world.run_for(kSoon);
  CHECK(world.dials[kNew] == dials);
  CHECK(world.servers->places() == std::vector<wire::Place>{place(3, kOther, 2)});
}

TEST_CASE(
    "a server says where its own volumes are to each server it meets, and again on a change") {
  World world(PeerRole::server);
  std::vector<wire::Place> own{place(9, kNew, 4)};
  world.parts->announcement = [&own] { return own; };
  world.add(kOld, 3);
  world.begin();
  (void)world.servers->volume(VolumeId{3}, kOld);
  world.run_for(kSoon);
  CHECK(world.sites[kOld].heard == own);
  own[0].address = kOther;
  world.run_for(kSoon);
  CHECK(world.sites[kOld].heard == own);
  // What others say of its own volumes means nothing to it.
  world.servers->hear({place(9, "127.0.0.1:9", 77)});
  CHECK(world.servers->places().empty());
}

TEST_CASE("nobody but a server says where volumes are") {
  World world(PeerRole::gateway);
  world.parts->announcement = [] { return std::vector<wire::Place>{place(9, kNew)}; };
  world.add(kOld, 3);
  world.begin();
  const auto volume = world.servers->volume(VolumeId{3}, kOld);
  world.run_for(kSoon);
  CHECK(world.sites[kOld].heard.empty());
  CHECK(volume->status().state == VolumeStatus::State::open);
}

TEST_CASE("who waits for the links' end does not go before it, and a pause ends with stop()") {
  World world;
  world.begin();
  (void)world.servers->volume(VolumeId{3}, kOld);
  world.run_for(std::chrono::seconds(10));
  const auto weak = std::weak_ptr(world.servers->server(kOld));
  world.servers->stop();
  world.io.restart();
  world.io.poll();
  world.servers->wait_ended(std::chrono::seconds(0));
  world.servers.reset();
  CHECK(weak.expired());
}

}  // namespace
}  // namespace penstock
