// Calls that a server refuses by themselves: those of a newer release, and while it stops.
#include <doctest/doctest.h>

#include "tests/fake/code_of.h"
#include "tests/unit/transport/raw_peer.h"

namespace penstock {
namespace {

TEST_CASE("a call of a newer release is refused alone, and calls under way are answered") {
  TransportWorld world;
  Peer peer(world);
  world.volume->fragments.faults.stall_reads = true;
  FragmentReadRequest request;
  request.length = 1;
  peer.send(a_call(wire::Operation::read_fragment, 1), wire::encode(request));
  for (const int number : {31, 255}) {
    const auto unknown = static_cast<wire::Operation>(number);
    wire::Header header = a_call(unknown, 2);
    header.traced = true;
    peer.send(header, std::string(300 * limits::kKiB, 'f'), some_bytes(1000));
    const auto answer = peer.receive();
    CHECK(answer.header.request_id == 2);
    CHECK(answer.header.operation == unknown);
    CHECK(answer.code == Errc::invalid);
    CHECK(answer.text.starts_with("wire: unknown call " + std::to_string(number)));
  }
  CHECK(peer.connection->calls_under_way() == 1);
  world.volume->fragments.release(fail(Errc::not_found, "none"));
  world.settle();
  const auto answer = peer.receive();
  CHECK(answer.header.request_id == 1);
  CHECK(answer.code == Errc::not_found);
  CHECK_FALSE(*peer.ended);
}

TEST_CASE("a server that stops refuses at once what begins, and answers what began") {
  TransportWorld world;
  Peer peer(world);
  wire::WriteFragment open;
  open.shape.data_bytes = 5;
  peer.send(a_call(wire::Operation::write_fragment, 1), encode(open));
  CHECK_FALSE(peer.receive().header.failed);
  peer.connection->close_when_idle();
  const auto farewell = peer.receive();
  CHECK(farewell.header.request_id == wire::kFarewell);
  CHECK(farewell.header.leaving);
  ReadRequest read;
  read.key.key = "k";
  const BootTime asked = world.clock.boot();
  peer.send(a_call(wire::Operation::read, 2), wire::encode(read));
  const auto refused = peer.receive();
  CHECK(refused.header.request_id == 2);
  CHECK(refused.code == Errc::unavailable);
  CHECK(world.clock.boot() == asked);
  CHECK(world.volume->acceptor.counters.reads == 0);
  wire::Append append;
  append.transfer = 1;
  append.crcs = {1};
  peer.send(a_call(wire::Operation::append, 3), encode(append), some_bytes(5));
  CHECK(peer.receive().header.request_id == 3);
  peer.send(a_call(wire::Operation::status, 4), "");
  CHECK_FALSE(peer.receive().header.failed);
  wire::EndTransfer end;
  end.transfer = 1;
  peer.send(a_call(wire::Operation::discard, 5), encode(end));
  world.run_for(std::chrono::seconds(1));
  peer.connection->close_when_idle();
  world.settle();
  CHECK(*peer.ended);
}

TEST_CASE("what was sent before a stop was heard of is refused, not lost") {
  TransportWorld world;
  Peer peer(world);
  peer.connection->close_when_idle();
  world.clock.advance(std::chrono::milliseconds(50));
  peer.connection->close_when_idle();  // nothing is under way
  CHECK(peer.receive().header.request_id == wire::kFarewell);
  ReadRequest read;
  read.key.key = "k";
  peer.send(a_call(wire::Operation::read, 2), wire::encode(read));
  CHECK(peer.receive().code == Errc::unavailable);
  world.clock.advance(std::chrono::milliseconds(60));
  peer.connection->close_when_idle();
  world.settle();
  CHECK(*peer.ended);
}

TEST_CASE("nothing that a server which stops would refuse is sent there, or waited for") {
  TransportWorld world;
  world.connect();
  for (const auto& connection : world.served) connection->close_when_idle();
  world.settle();
  const BootTime asked = world.clock.boot();
  const auto read = std::make_shared<ReadRequest>();
  read->key.key = "k";
  CHECK(code_of(world.run(world.remote->read(read, world.soon()))) == Errc::unavailable);
  FragmentReadRequest bytes;
  bytes.length = 1;
  const auto piece = world.run(world.remote->read_fragment(bytes, world.soon()));
  CHECK(code_of(piece) == Errc::unavailable);
  CHECK(world.clock.boot() == asked);
  CHECK(world.volume->acceptor.counters.reads == 0);
  CHECK(world.remote->status().full);
  // Its next process is asked again.
  world.run_for(std::chrono::milliseconds(200));
  for (const auto& connection : world.served) connection->close_when_idle();
  const auto is_well = [&] {
    const VolumeStatus status = world.remote->status();
    return status.state == VolumeStatus::State::open && !status.full;
  };
  REQUIRE(run_until(world.io, world.clock, is_well));
  CHECK(world.run(world.remote->read(read, world.soon())));
}

// A call that somebody waits for.
struct Asked {
  std::optional<Errc> ended;
  static Awaitable<void> ask(TransportWorld& world, Asked& asked) {
    const auto read = std::make_shared<ReadRequest>();
    read->key.key = "k";
    asked.ended = code_of(co_await world.remote->read(read, world.soon()));
  }
};

TEST_CASE("what still waits to be sent when a server says that it stops ends at once as not sent") {
  TransportWorld world;
  world.connect();
  for (const FakeWire& wire : world.wires) wire.to_server->bytes_max = 1;
  Asked first, second;
  for (Asked* asked : {&first, &second}) {
    for (const FakeWire& wire : world.wires) wire.to_server->stalled = true;
    boost::asio::co_spawn(world.io, Asked::ask(world, *asked), boost::asio::detached);
    world.settle();
  }
  for (const auto& connection : world.served) connection->close_when_idle();
  world.settle();
  CHECK_FALSE(first.ended);  // its first bytes have left
  CHECK(second.ended == Errc::unavailable);
  for (const FakeWire& wire : world.wires) {
    wire.to_server->bytes_max = 1 << 20;
    wire.to_server->resume();
    wire.to_server->wake();
  }
  world.settle();
  CHECK(first.ended == Errc::unavailable);  // the server says so
  CHECK(world.volume->acceptor.counters.reads == 0);
}

}  // namespace
}  // namespace penstock
