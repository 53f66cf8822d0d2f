#include "server/transport/server_link.h"

#include <doctest/doctest.h>

#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

Awaitable<void> read(TransportWorld& world, std::vector<Errc>& ends) {
  FragmentReadRequest request;
  request.id = FragmentId{WriteId{1, 2}, 3, Generation{4}};
  request.length = 5;
  const auto piece = co_await world.remote->read_fragment(request, world.soon());
  ends.push_back(piece ? Errc::invalid : piece.error().code);
}

TEST_CASE("fragments go over the connection with the fewest calls under way") {
  TransportWorld world;
  world.connect();
  world.volume->fragments.faults.stall_reads = true;
  std::vector<Errc> ends;
  for (int i = 0; i < 4; ++i) {
    boost::asio::co_spawn(world.io, read(world, ends), boost::asio::detached);
    world.settle();
  }
  std::vector<std::size_t> calls;
  for (const auto& connection : world.served) calls.push_back(connection->calls_under_way());
  std::sort(calls.begin(), calls.end());
  CHECK(calls == std::vector<std::size_t>{0, 2, 2});
  world.volume->fragments.release(fail(Errc::io, "gone"));
  world.settle();
  CHECK(ends.size() == 4);
}

TEST_CASE("a server that greets and closes at once is tried again like one that is not there") {
  TransportWorld world;
  std::size_t dials = 0;
  world.links->dial = [&](std::string) {
    ++dials;
    return world.dial();
  };
  world.server->start();
  const BootTime until = world.clock.boot() + Duration(std::chrono::seconds(20));
  while (world.clock.boot() < until) {
    world.run_for(std::chrono::milliseconds(5));
    for (const auto& connection : world.served) {
      if (connection->peer()) connection->close();
    }
  }
  // Of three connections, each about once a second: none of them wakes the others.
  CHECK(dials < 3 * 24);
  CHECK(dials > 3 * 15);
}

bool is_open(const TransportWorld& world) {
  return world.remote->status().state == VolumeStatus::State::open;
}

bool is_reached(const TransportWorld& world) {
  return world.remote->status().reason.find("it was reached") != std::string::npos;
}

TEST_CASE("volumes are open when all connections to their server are made") {
  TransportWorld world;
  bool all = false;
  world.links->dial = [&](std::string) {
    world.reachable = all || world.wires.empty();
    return world.dial();
  };
  world.server->start();
  REQUIRE(run_until(world.io, world.clock, [&] { return is_reached(world); }));
  world.run_for(std::chrono::milliseconds(500));
  CHECK_FALSE(is_open(world));
  CHECK(is_reached(world));
  all = true;
  world.server->retry();
  world.run_for(std::chrono::milliseconds(2));
  CHECK(world.wires.size() == 1 + limits::kByteConnections);
  CHECK(is_open(world));
}

TEST_CASE("a connection that cannot be made keeps no volume from whoever reaches it") {
  TransportWorld world;
  world.links->dial = [&](std::string) {
    world.reachable = world.wires.empty();
    return world.dial();
  };
  world.server->start();
  world.run_for(std::chrono::milliseconds(900));
  CHECK_FALSE(is_open(world));
  world.run_for(std::chrono::milliseconds(200));
  CHECK(is_open(world));
  CHECK(world.run(world.remote->probe(world.soon())));
}

TEST_CASE("as soon as one connection finds a server again, all are made") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TransportWorld world;
    world.random = SeededRandom(seed);
    world.reachable = false;
    world.server->start();
    world.run_for(std::chrono::seconds(10));
    world.reachable = true;
    REQUIRE(run_until(world.io, world.clock, [&] { return is_reached(world); }));
    world.run_for(std::chrono::milliseconds(2));
    CHECK(world.wires.size() == 1 + limits::kByteConnections);
    CHECK(is_open(world));
  }
}

TEST_CASE("what woke a connection while it was made does not cut its next pause short") {
  TransportWorld world;
  std::size_t dials = 0;
  world.links->dial = [&](std::string) -> Task<std::unique_ptr<ByteStream>> {
    // The first one is there before the others, which it finds dialling.
    if (++dials > 1) co_await world.clock.sleep_until(world.clock.boot() + Duration(5'000'000));
    co_return co_await world.dial();
  };
  world.connect();
  world.run_for(std::chrono::seconds(10));
  const std::size_t made = dials;
  for (const auto& connection : world.served) connection->close();
  world.run_for(std::chrono::milliseconds(20));  // of at least 25 ms
  CHECK(dials == made);
  world.run_for(std::chrono::seconds(1));
  CHECK(dials == 2 * made);
}

// A process with two threads, run by one.
struct TwoThreads {
  TwoThreads() {
    world.reachable = false;
    server->start();
    run_for(std::chrono::seconds(10));
  }
  ~TwoThreads() {
    server->stop();
    for (const auto& connection : world.served) connection->close();
    run_for(std::chrono::seconds(40));
  }
  void run_for(Duration time) {
    const BootTime until = world.clock.boot() + time;
    while (world.clock.boot() < until) {
      for (int turn = 0; turn < 20; ++turn) {
        for (boost::asio::io_context* io : {&world.io, &second}) {
          io->restart();
          io->poll();
        }
      }
      world.clock.advance(std::chrono::milliseconds(1));
    }
  }
  std::uint64_t connections() const { return server->counts().connections; }
  bool is_open() const {
    return server->status(world.volume->id()).state == VolumeStatus::State::open;
  }
  TransportWorld world;
  boost::asio::io_context second;
  std::shared_ptr<RemoteServer> server = std::make_shared<RemoteServer>(
      std::vector<boost::asio::io_context*>{&world.io, &second}, world.links, "127.0.0.1:1");
};

constexpr std::size_t kOfTwo = 2 * (1 + limits::kByteConnections);

TEST_CASE("volumes are open when every thread reaches them") {
  TwoThreads two;
  std::size_t allowed = 0;
  two.world.links->dial = [&](std::string) {
    two.world.reachable = two.world.wires.size() < allowed;
    return two.world.dial();
  };
  for (std::size_t more = 0; more < kOfTwo; ++more) {
    allowed = more + 1;
    two.server->retry();
    two.run_for(std::chrono::milliseconds(2));
    CHECK(two.is_open() == (two.connections() == kOfTwo));
  }
  CHECK(two.is_open());
}

TEST_CASE("the thread that finds a server again wakes the others") {
  for (int step = 1; step <= 10; ++step) {
    TwoThreads two;
    two.run_for(std::chrono::milliseconds(37 * step));  // to another place in their pauses
    two.world.reachable = true;
    bool calls = false;
    for (int ms = 0; ms < 1100 && !calls; ++ms) {
      two.run_for(std::chrono::milliseconds(1));
      const auto& link = two.server->link(two.world.io.get_executor());
      calls = link.for_calls() != nullptr || two.connections() == kOfTwo;
    }
    two.run_for(std::chrono::milliseconds(3));
    CHECK(two.connections() == kOfTwo);
    CHECK(two.is_open());
  }
}

TEST_CASE("the status is asked for before the server is told where volumes are") {
  TransportWorld world;
  std::vector<bool> known;
  world.links->announcement = [&] {
    known.push_back(world.server->volumes().has_value());
    return std::vector<wire::Place>{};
  };
  world.connect();
  REQUIRE(run_until(world.io, world.clock, [&] { return !known.empty(); }));
  CHECK(known.front());
}

TEST_CASE("a message that is longer than a frame fails alone") {
  TransportWorld world;
  world.connect();
  const std::size_t connections = world.wires.size();
  const std::string text(wire::kFieldsBytesMax, 'x');
  const auto put = world.run(world.remote->put_note("name", text, world.soon()));
  REQUIRE(!put);
  CHECK(put.error().code == Errc::invalid);
  CHECK(world.run(world.remote->probe(world.soon())));
  CHECK(world.wires.size() == connections);
}

}  // namespace
}  // namespace penstock
