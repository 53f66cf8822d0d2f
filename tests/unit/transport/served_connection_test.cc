// Peers that have the key and keep to no other rule.
#include "server/transport/served_connection.h"

#include <doctest/doctest.h>

#include "tests/unit/transport/raw_peer.h"

namespace penstock {
namespace {

TEST_CASE("fields that make no sense fail their call alone") {
  TransportWorld world;
  Peer peer(world);
  for (int operation = 2; operation <= 30; ++operation) {
    const auto which = static_cast<wire::Operation>(operation);
    const bool quiet = which == wire::Operation::discard || which == wire::Operation::status ||
                       which == wire::Operation::ping || which == wire::Operation::probe ||
                       which == wire::Operation::describe || which == wire::Operation::read_map ||
                       which == wire::Operation::read_join_state;
    if (quiet) continue;
    CAPTURE(operation);
    peer.send(a_call(which, 100 + static_cast<std::uint64_t>(operation)), "non-sense");
    const auto answer = peer.receive();
    CHECK(answer.header.failed);
    CHECK(answer.code == Errc::corrupt);
    CHECK(answer.header.request_id == 100 + static_cast<std::uint64_t>(operation));
  }
  peer.send(a_call(wire::Operation::discard, 1), "non-sense");
  peer.send(a_call(wire::Operation::ping, 7), "");
  CHECK(peer.receive().header.request_id == 7);
  CHECK(peer.connection->calls_under_way() == 0);
}

TEST_CASE("steps of fragments that nobody opened are refused") {
  TransportWorld world;
  Peer peer(world);
  wire::Append append;
  append.transfer = 5;
  append.crcs = {1};
  peer.send(a_call(wire::Operation::append, 1), encode(append), some_bytes(100));
  CHECK(peer.receive().code == Errc::invalid);
  wire::EndTransfer commit;
  commit.transfer = 5;
  peer.send(a_call(wire::Operation::commit, 2), encode(commit));
  CHECK(peer.receive().code == Errc::invalid);
  // The same id twice.
  wire::WriteFragment open;
  open.shape.data_bytes = 5;
  peer.send(a_call(wire::Operation::write_fragment, 9), encode(open));
  CHECK_FALSE(peer.receive().header.failed);
  peer.send(a_call(wire::Operation::write_fragment, 9), encode(open));
  CHECK(peer.receive().code == Errc::invalid);
  CHECK(world.volume->fragments.counters.writers_open == 1);
}

TEST_CASE("fragments that are opened without end are bounded, and forgotten with the connection") {
  TransportWorld world;
  Peer peer(world);
  std::size_t refused = 0;
  for (std::uint64_t i = 0; i < limits::kTransfersPerConnection + 10; ++i) {
    wire::WriteFragment open;
    open.id.generation.value = i;
    open.shape.data_bytes = 5;
    peer.send(a_call(wire::Operation::write_fragment, 1000 + i), encode(open));
    if (peer.receive().code == Errc::overloaded) ++refused;
  }
  CHECK(refused == 10);
  peer.wire.cut();
  world.settle();
  CHECK(world.volume->fragments.counters.writers_open == 0);
}

TEST_CASE("one that breaks the rules of frames is cut off") {
  TransportWorld world;
  Peer peer(world);
  wire::Header header = a_call(wire::Operation::read, 1);
  SUBCASE("garbage") { peer.send(std::string(1000, 'x')); }
  SUBCASE("fields that are too long") {
    header.fields_bytes = 0xffffffff;
    peer.send(wire::encode(header));
  }
  SUBCASE("payload that is too long") {
    header.payload_bytes = wire::kPayloadBytesMax + 1;
    peer.send(wire::encode(header));
  }
  SUBCASE("fields of another checksum") {
    OutFrame frame = make_frame(header, "fields");
    frame.head.back() ^= 1;
    peer.send(frame.head);
  }
  SUBCASE("payload of another checksum") {
    const OutFrame frame = make_frame(a_call(wire::Operation::append, 1), "", some_bytes(10));
    peer.send(frame.head + "0123456789");
  }
  SUBCASE("an answer") {
    header.reply = true;
    peer.send(header, "");
  }
  SUBCASE("another hello") { peer.send(a_call(wire::Operation::hello, 1), ""); }
  REQUIRE(*peer.ended);
  CHECK((*peer.ended)->error().code == Errc::corrupt);
  CHECK(peer.connection->calls_under_way() == 0);
}

TEST_CASE(
    "a peer that takes no answer holds a bounded number of calls, and is cut off in the end") {
  TransportWorld world;
  Peer peer(world);
  peer.wire.to_client->bytes_max = 0;  // nothing more leaves
  peer.wire.to_server->bytes_max = 1 << 30;
  wire::Operation operation = wire::Operation::ping;
  VolumeId volume{3};
  std::size_t least = limits::kAnswersAtOnce;
  SUBCASE("pings") {}
  SUBCASE("the status") { operation = wire::Operation::status; }
  SUBCASE("of one volume: the share of it, and refusals") {
    operation = wire::Operation::probe;
    least = limits::kCallsPerConnection / 2;
  }
  SUBCASE("of a volume that is not here") {
    operation = wire::Operation::probe;
    volume = VolumeId{7};
    least = limits::kCallsPerConnection / 2;
  }
  std::string calls;
  for (std::uint64_t i = 0; i < 20 * limits::kCallsPerConnection; ++i) {
    calls += make_frame(a_call(operation, i, volume), "").head;
  }
  peer.send(calls);
  CHECK(peer.connection->calls_under_way() <= least + limits::kAnswersAtOnce);
  CHECK(peer.connection->calls_under_way() >= least);
  // Of the rest nothing is here but what one receive() took.
  CHECK(peer.wire.to_server->bytes.size() > calls.size() / 2);
  CHECK_FALSE(*peer.ended);
  world.run_for(std::chrono::seconds(70));
  CHECK(*peer.ended);
  CHECK(peer.connection->calls_under_way() == 0);
}

TEST_CASE("a peer at another map of the same epoch may still ask for maps, and nothing else") {
  using wire::Operation;
  TransportWorld world;
  world.server_map = MapStamp{Epoch{7}, {1}};
  Peer peer(world);
  std::uint64_t id = 0;
  for (const Operation operation :
       {Operation::read_map, Operation::adopt, Operation::read_join_state, Operation::read_note,
        Operation::put_note, Operation::read, Operation::list_fragments}) {
    CAPTURE(wire::operation_name(operation));
    wire::Header header = a_call(operation, ++id);
    header.map_epoch = Epoch{7};
    header.map_digest = {2};
    peer.send(header, "");
    const auto answer = peer.receive();
    const bool about_maps = operation != Operation::read && operation != Operation::list_fragments;
    CHECK((answer.code == Errc::stale_epoch) == !about_maps);
  }
}

// A server with this many volumes, of which all but the last hang.
struct HungVolumes {
  HungVolumes(TransportWorld& world, std::uint64_t count) {
    for (std::uint64_t i = 1; i <= count; ++i) {
      volumes.push_back(std::make_shared<FakeVolume>(VolumeId{i}, world.clock, world.io));
      if (i == count) break;
      volumes.back()->acceptor.fate = [](VolumeId, RegisterCall, const RegisterKey&) {
        Fate fate;
        fate.lose_reply = true;
        return fate;
      };
    }
    world.service->volumes = [this] {
      return std::vector<std::shared_ptr<VolumeClient>>(volumes.begin(), volumes.end());
    };
    world.service->find = [this](VolumeId id) -> std::shared_ptr<VolumeClient> {
      return id.value == 0 || id.value > volumes.size() ? nullptr : volumes[id.value - 1];
    };
  }
  std::vector<std::shared_ptr<FakeVolume>> volumes;
};

TEST_CASE("all disks of a server but one hang: that one, pings and the status are answered") {
  TransportWorld world;
  HungVolumes hung(world, 6);
  Peer peer(world);
  peer.wire.to_server->bytes_max = 1 << 30;
  peer.wire.to_client->bytes_max = 1 << 30;
  ReadRequest request;
  request.key.kind = RowKind::object;
  std::string calls;
  std::uint64_t id = 1;
  for (std::uint64_t volume = 1; volume < 6; ++volume) {
    for (std::size_t i = 0; i < limits::kCallsPerConnection; ++i) {
      wire::Header header = a_call(wire::Operation::read, ++id, VolumeId{volume});
      header.patience_ms = 60'000;
      calls += make_frame(header, wire::encode(request)).head;
    }
  }
  peer.send(calls);
  // Those beyond the shares were refused.
  const std::size_t share = limits::kCallsPerConnection / 7;
  CHECK(peer.connection->calls_under_way() == 5 * share);
  for (std::size_t i = 0; i < 5 * (limits::kCallsPerConnection - share); ++i) {
    REQUIRE(peer.receive().code == Errc::overloaded);
  }
  peer.send(a_call(wire::Operation::ping, 1'000'001), "");
  CHECK(peer.receive().header.request_id == 1'000'001);
  peer.send(a_call(wire::Operation::status, 1'000'002), "");
  CHECK(peer.receive().header.request_id == 1'000'002);
  peer.send(a_call(wire::Operation::probe, 1'000'003, VolumeId{6}), "");
  const auto sound = peer.receive();
  CHECK(sound.header.request_id == 1'000'003);
  CHECK_FALSE(sound.header.failed);
}

TEST_CASE("pings are answered while the room is full of calls that hang") {
  TransportWorld world;
  HungVolumes hung(world, 200);  // so many that each has the least share
  Peer peer(world);
  peer.wire.to_server->bytes_max = 1 << 30;
  ReadRequest request;
  request.key.kind = RowKind::object;
  std::string calls;
  for (std::uint64_t i = 0; i < limits::kCallsPerConnection; ++i) {
    wire::Header header = a_call(wire::Operation::read, i + 1, VolumeId{1 + i % 199});
    header.patience_ms = 60'000;
    calls += make_frame(header, wire::encode(request)).head;
  }
  peer.send(calls);
  CHECK(peer.connection->calls_under_way() == limits::kCallsPerConnection);
  peer.send(a_call(wire::Operation::ping, 5'000), "");
  CHECK(peer.receive().header.request_id == 5'000);
}

TEST_CASE("a call for which the full room has none is refused, and pings go on") {
  TransportWorld world;
  HungVolumes hung(world, 200);
  Peer peer(world);
  peer.wire.to_server->bytes_max = 1 << 30;
  ReadRequest request;
  request.key.kind = RowKind::object;
  std::string calls;
  for (std::uint64_t i = 0; i <= limits::kCallsPerConnection; ++i) {
    wire::Header header = a_call(wire::Operation::read, i + 1, VolumeId{1 + i % 199});
    header.patience_ms = 60'000;
    calls += make_frame(header, wire::encode(request)).head;
  }
  peer.send(calls);
  CHECK(peer.receive().code == Errc::overloaded);
  peer.send(a_call(wire::Operation::ping, 5'000), "");
  CHECK(peer.receive().header.request_id == 5'000);
}

TEST_CASE("shares follow the number of volumes, as the server's status finds it") {
  TransportWorld world;
  Peer peer(world);  // met with one volume
  HungVolumes hung(world, 6);
  peer.wire.to_server->bytes_max = 1 << 30;
  peer.wire.to_client->bytes_max = 1 << 30;
  peer.send(a_call(wire::Operation::status, 1), "");
  ReadRequest request;
  request.key.kind = RowKind::object;
  std::string calls;
  for (std::uint64_t i = 0; i < limits::kCallsPerConnection; ++i) {
    wire::Header header = a_call(wire::Operation::read, i + 2, VolumeId{1});
    header.patience_ms = 60'000;
    calls += make_frame(header, wire::encode(request)).head;
  }
  peer.send(calls);
  CHECK(peer.connection->calls_under_way() == limits::kCallsPerConnection / 7);
}

TEST_CASE("a fragment that is given up needs no room for that") {
  TransportWorld world;
  MemoryBudget budget(8 * limits::kMiB);
  world.service->budget = &budget;
  Peer peer(world);
  wire::WriteFragment open;
  open.shape.data_bytes = 5;
  peer.send(a_call(wire::Operation::write_fragment, 9), encode(open));
  CHECK_FALSE(peer.receive().header.failed);
  CHECK(world.volume->fragments.counters.writers_open == 1);
  const auto all = budget.take(budget.limit_bytes() - budget.used_bytes());
  REQUIRE(all);
  wire::EndTransfer end;
  end.transfer = 9;
  peer.send(a_call(wire::Operation::discard, 10), encode(end));
  CHECK(world.volume->fragments.counters.writers_open == 0);
}

TEST_CASE("a fragment that nobody goes on with is forgotten after a quarter of an hour") {
  TransportWorld world;
  Peer peer(world);
  wire::WriteFragment open;
  open.shape.data_bytes = 5;
  peer.send(a_call(wire::Operation::write_fragment, 9), encode(open));
  CHECK_FALSE(peer.receive().header.failed);
  world.run_for(std::chrono::minutes(14));
  CHECK(world.volume->fragments.counters.writers_open == 1);
  world.run_for(std::chrono::minutes(2));
  CHECK(world.volume->fragments.counters.writers_open == 0);
  CHECK_FALSE(*peer.ended);
}

TEST_CASE("a peer that takes a long answer slowly is not cut off") {
  TransportWorld world;
  world.service->describe = [] { return std::string(limits::kMiB, 'x'); };
  Peer peer(world);
  peer.wire.to_client->bytes_max = 64 * limits::kKiB;
  peer.send(a_call(wire::Operation::describe, 1), "");
  std::vector<std::byte> some(1024);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(world.run(peer.end->receive(some)).value() > 0);
    world.run_for(std::chrono::seconds(10));
  }
  CHECK_FALSE(*peer.ended);
}

TEST_CASE("what calls hold counts in the memory of the process") {
  TransportWorld world;
  MemoryBudget budget(8 * limits::kMiB);
  world.service->budget = &budget;
  world.volume->acceptor.fate = [](VolumeId, RegisterCall, const RegisterKey&) {
    Fate fate;
    fate.lose_reply = true;
    return fate;
  };
  Peer first(world);
  Peer second(world);
  SUBCASE("long fields have no memory before there is room for them") {
    // Of a row that never comes: nine frames that are announced, one of which has no room.
    wire::Header header = a_call(wire::Operation::accept, 1);
    header.fields_bytes = 6 * limits::kMiB;
    first.send(wire::encode(header));
    CHECK(budget.used_bytes() > 6 * limits::kMiB);
    second.send(wire::encode(header));
    CHECK(budget.used_bytes() < 7 * limits::kMiB);
    second.wire.to_server->bytes_max = 1 << 30;
    second.send(std::string(header.fields_bytes, 'x'));
    CHECK(second.receive().code == Errc::overloaded);
    second.send(a_call(wire::Operation::ping, 2), "");
    CHECK(second.receive().header.request_id == 2);
    // A frame that has begun and does not go on is given up.
    world.run_for(std::chrono::seconds(70));
    CHECK(*first.ended);
    CHECK_FALSE(*second.ended);
    CHECK(budget.used_bytes() == 0);
  }
  SUBCASE("calls under way") {
    ReadRequest request;
    request.key.kind = RowKind::object;
    for (Peer* peer : {&first, &second}) {
      std::string calls;
      for (std::uint64_t i = 0; i < 2000; ++i) {
        calls += make_frame(a_call(wire::Operation::read, i + 1), wire::encode(request)).head;
      }
      peer->wire.to_server->bytes_max = 1 << 30;
      peer->wire.to_client->bytes_max = 1 << 30;
      peer->send(calls);
    }
    CHECK(budget.used_bytes() > 2 * limits::kMiB);
    CHECK(budget.used_bytes() <= 8 * limits::kMiB);
    first.wire.cut();
    second.wire.cut();
    world.run_for(std::chrono::seconds(3));
    CHECK(budget.used_bytes() == 0);
  }
}

TEST_CASE("fields that are longer than any of their call are not read") {
  TransportWorld world;
  Peer peer(world);
  wire::Header header = a_call(wire::Operation::read, 1);
  header.fields_bytes = 100'000;
  peer.send(wire::encode(header));
  REQUIRE(*peer.ended);
  CHECK((*peer.ended)->error().code == Errc::corrupt);
}

TEST_CASE("a patience that is no such thing is bounded") {
  TransportWorld world;
  Peer peer(world);
  world.volume->acceptor.fate = [](VolumeId, RegisterCall, const RegisterKey&) {
    Fate fate;
    fate.lose_reply = true;
    return fate;
  };
  ReadRequest request;
  request.key.kind = RowKind::object;
  wire::Header header = a_call(wire::Operation::read, 1);
  header.patience_ms = 0xffffffff;
  peer.send(header, wire::encode(request));
  CHECK(peer.connection->calls_under_way() == 1);
  world.run_for(Duration(limits::kCallPatienceMax) + Duration(std::chrono::seconds(1)));
  CHECK(peer.connection->calls_under_way() == 0);
}

}  // namespace
}  // namespace penstock
