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
  // Of three connections, each about once a second.
  CHECK(dials < 3 * 50);
  CHECK(dials > 3 * 15);
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
