#include "server/transport/remote_volume.h"

#include <doctest/doctest.h>

#include <new>

#include "tests/fake/code_of.h"
#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

const FragmentId kFragment{WriteId{1, 2}, 3, Generation{4}};

std::shared_ptr<const ReadRequest> a_read() {
  auto request = std::make_shared<ReadRequest>();
  request->key.bucket = BucketId{7};
  request->key.key = "k";
  return request;
}

Buffer bytes_of(std::size_t count, char fill) {
  return Buffer::copy_of(as_bytes(std::string(count, fill)));
}
std::vector<std::uint32_t> crcs_of(std::uint64_t first_block, const Buffer& data) {
  std::vector<std::uint32_t> crcs;
  for (std::size_t at = 0; at < data.size(); at += limits::kBlockBytes) {
    const std::size_t length = std::min(limits::kBlockBytes, data.size() - at);
    crcs.push_back(fragment_block_crc(kFragment.write_id, kFragment.slot, first_block++,
                                      data.bytes().subspan(at, length)));
  }
  return crcs;
}

// Opens, appends three pieces and commits.
Task<> write_all(RemoteVolume& volume, Deadline deadline) {
  const Buffer piece = bytes_of(limits::kPieceBytes, 'a');
  const std::uint64_t blocks = piece.size() / limits::kBlockBytes;
  const Buffer last = bytes_of(1000, 'b');
  FragmentShape shape;
  shape.data_bytes = 2 * piece.size() + last.size();
  CO_TRY(writer, co_await volume.write_fragment(kFragment, shape, deadline));
  for (std::uint64_t i = 0; i < 2; ++i) {
    CO_CHECK(co_await writer->append(piece, crcs_of(blocks * i, piece), deadline));
  }
  CO_CHECK(co_await writer->append(last, crcs_of(2 * blocks, last), deadline));
  co_return co_await writer->commit(deadline);
}

FragmentReadRequest a_fragment_read(std::uint64_t offset, std::uint64_t length) {
  FragmentReadRequest request;
  request.id = kFragment;
  request.offset = offset;
  request.length = length;
  return request;
}

TEST_CASE("register calls reach the volume and come back") {
  TransportWorld world;
  world.connect();
  CHECK(world.remote->status().state == VolumeStatus::State::open);
  auto prepare = std::make_shared<PrepareRequest>();
  prepare->key = a_read()->key;
  prepare->ballot = Ballot{world.clock.wall().time_since_epoch().count() + 0ull, 1, 1};
  const auto promise = world.run(world.remote->prepare(prepare, world.soon()));
  REQUIRE(promise);
  CHECK(promise->promised);
  const auto row = world.run(world.remote->read(a_read(), world.soon()));
  REQUIRE(row);
  CHECK(row->ballot.is_zero());
  CHECK(world.volume->acceptor.counters.prepares == 1);
  CHECK(world.volume->acceptor.counters.reads == 1);
  CHECK(world.heard == world.server_map);
}

TEST_CASE("a fragment is written in pieces, and read back") {
  TransportWorld world;
  world.connect();
  REQUIRE(world.run(write_all(*world.remote, world.soon())));
  CHECK(world.volume->fragments.holds(kFragment));
  const std::size_t from = limits::kPieceBytes - 10;
  const auto piece =
      world.run(world.remote->read_fragment(a_fragment_read(from, 20), world.soon()));
  REQUIRE(piece);
  CHECK(as_text(piece->bytes()) == std::string(20, 'a'));
  const auto late = world.run(world.remote->read_fragment(
      a_fragment_read(2 * limits::kPieceBytes + 990, 20), world.soon()));
  CHECK(code_of(late) == Errc::invalid);
  CHECK(world.served.back()->calls_under_way() == 0);
}

// A frame whose payload is its last bytes: one of them flips on its way.
void flip_last_byte_at(FakePipe& pipe, std::size_t bytes) {
  REQUIRE(pipe.bytes.size() >= bytes);
  pipe.bytes.back() ^= std::byte{1};
}

TEST_CASE("a byte that changes on its way reaches nobody") {
  TransportWorld world;
  world.connect();
  REQUIRE(world.run(write_all(*world.remote, world.soon())));
  for (const FakeWire& wire : world.wires) wire.to_client->stalled = true;
  std::optional<Result<Piece>> read;
  auto ask = [](RemoteVolume& volume, Deadline until,
                std::optional<Result<Piece>>& answer) -> Awaitable<void> {
    answer.emplace(co_await volume.read_fragment(a_fragment_read(5, 20), until));
  };
  boost::asio::co_spawn(world.io, ask(*world.remote, world.soon(), read), boost::asio::detached);
  const auto has_answer = [](const FakeWire& wire) {
    return wire.to_client->bytes.size() > limits::kBlockBytes;
  };
  const auto answered = [&] {
    return std::any_of(world.wires.begin(), world.wires.end(), has_answer);
  };
  REQUIRE(run_until(world.io, world.clock, answered));
  for (const FakeWire& wire : world.wires) {
    if (has_answer(wire)) flip_last_byte_at(*wire.to_client, limits::kBlockBytes);
    wire.to_client->resume();
    wire.to_client->stalled = false;
  }
  REQUIRE(run_until(world.io, world.clock, [&] { return read.has_value(); }));
  CHECK(code_of(*read) == Errc::corrupt);
  // The connection goes on.
  CHECK(world.run(world.remote->read_fragment(a_fragment_read(5, 20), world.soon())));
}

TEST_CASE("a piece whose checksums are of other bytes is not written") {
  TransportWorld world;
  world.connect();
  const auto write = [&world](std::uint64_t first_block) -> Task<> {
    const Buffer piece = bytes_of(1000, 'b');
    FragmentShape shape;
    shape.data_bytes = piece.size();
    CO_TRY(writer, co_await world.remote->write_fragment(kFragment, shape, world.soon()));
    CO_CHECK(co_await writer->append(piece, crcs_of(first_block, piece), world.soon()));
    co_return co_await writer->commit(world.soon());
  };
  CHECK(code_of(world.run(write(1))) == Errc::corrupt);
  CHECK_FALSE(world.volume->fragments.holds(kFragment));
  CHECK(world.run(write(0)));
}

TEST_CASE("errors of the volume come back as they are") {
  TransportWorld world;
  world.connect();
  world.volume->fragments.faults.full = true;
  CHECK(code_of(world.run(write_all(*world.remote, world.soon()))) == Errc::full);
  world.volume->fragments.faults = {};
  world.volume->fragments.faults.fail_append = 2;
  CHECK(code_of(world.run(write_all(*world.remote, world.soon()))) == Errc::io);
  world.volume->fragments.faults.fail_commit = true;
  CHECK(code_of(world.run(write_all(*world.remote, world.soon()))) == Errc::io);
  world.settle();
  CHECK(world.volume->fragments.counters.writers_open == 0);
}

TEST_CASE("a writer that is destroyed or given up is forgotten at the server") {
  TransportWorld world;
  world.connect();
  FragmentShape shape;
  shape.data_bytes = 5;
  auto opened = world.run(world.remote->write_fragment(kFragment, shape, world.soon()));
  REQUIRE(opened);
  CHECK(world.volume->fragments.counters.writers_open == 1);
  SUBCASE("destroyed") { opened->reset(); }
  SUBCASE("given up") {
    (*opened)->give_up();
    const auto after = world.run((*opened)->commit(world.soon()));
    CHECK(code_of(after) == Errc::timeout);
  }
  SUBCASE("its connection breaks") {
    for (const FakeWire& wire : world.wires) wire.cut();
    world.settle();
    const auto after = world.run((*opened)->commit(world.soon()));
    CHECK(code_of(after) == Errc::unavailable);
  }
  world.settle();
  CHECK(world.volume->fragments.counters.writers_open == 0);
  CHECK_FALSE(world.volume->fragments.holds(kFragment));
}

TEST_CASE("a call whose answer does not come is of unknown outcome") {
  TransportWorld world;
  world.connect();
  SUBCASE("at its deadline") {
    for (const FakeWire& wire : world.wires) wire.to_client->stalled = true;
    const BootTime begin = world.clock.boot();
    const auto row = world.run(world.remote->read(a_read(), world.soon()));
    CHECK(code_of(row) == Errc::timeout);
    CHECK(world.clock.boot() - begin == Duration(std::chrono::seconds(2)));
  }
  SUBCASE("with its connection") {
    world.volume->acceptor.fate = [](VolumeId, RegisterCall, const RegisterKey&) {
      Fate fate;
      fate.reply_delay = std::chrono::seconds(1);
      return fate;
    };
    std::optional<Errc> ended;
    auto ask = [](RemoteVolume& volume, Deadline until,
                  std::optional<Errc>& code) -> Awaitable<void> {
      const auto row = co_await volume.read(a_read(), until);
      code = row ? Errc::invalid : row.error().code;
    };
    boost::asio::co_spawn(world.io, ask(*world.remote, world.soon(), ended), boost::asio::detached);
    world.run_for(std::chrono::milliseconds(10));
    CHECK_FALSE(ended);
    for (const FakeWire& wire : world.wires) wire.cut();
    world.settle();
    CHECK(ended == Errc::timeout);
  }
}

TEST_CASE("a call that never left was not done") {
  TransportWorld world;
  const auto before = world.run(world.remote->read(a_read(), world.soon()));
  CHECK(code_of(before) == Errc::unavailable);
  world.connect();
  // Nothing leaves any more: the first call waits half sent, the second has not begun.
  for (const FakeWire& wire : world.wires) wire.to_server->bytes_max = 0;
  std::vector<Errc> ends;
  auto ask = [](RemoteVolume& volume, Deadline until, std::vector<Errc>& codes) -> Awaitable<void> {
    const auto row = co_await volume.read(a_read(), until);
    codes.push_back(row ? Errc::invalid : row.error().code);
  };
  for (int i = 0; i < 2; ++i) {
    boost::asio::co_spawn(world.io, ask(*world.remote, world.soon(), ends), boost::asio::detached);
    world.settle();
  }
  world.run_for(std::chrono::seconds(3));
  CHECK(ends == std::vector<Errc>{Errc::timeout, Errc::unavailable});
  CHECK(world.volume->acceptor.counters.reads == 0);
}

TEST_CASE("a server that comes back is found again, and its status tells the truth meanwhile") {
  TransportWorld world;
  world.connect();
  world.reachable = false;
  for (const FakeWire& wire : world.wires) wire.cut();
  world.settle();
  CHECK(world.remote->status().state == VolumeStatus::State::missing);
  CHECK(world.remote->status().reason.find("127.0.0.1:1") != std::string::npos);
  world.run_for(std::chrono::seconds(30));
  CHECK(world.remote->status().state == VolumeStatus::State::missing);
  world.reachable = true;
  const BootTime back = world.clock.boot();
  REQUIRE(run_until(world.io, world.clock,
                    [&] { return world.remote->status().state == VolumeStatus::State::open; }));
  CHECK(world.clock.boot() - back <= Duration(limits::kReconnectMax));
  CHECK(world.run(world.remote->read(a_read(), world.soon())));
}

TEST_CASE("a server that is silent is left after a while, and a slow disk is no silence") {
  TransportWorld world;
  world.connect();
  const std::size_t connections = world.wires.size();
  SUBCASE("silent") {
    for (const FakeWire& wire : world.wires) wire.to_client->stalled = true;
    world.run_for(std::chrono::seconds(4));
    CHECK(world.remote->status().state == VolumeStatus::State::missing);
    world.run_for(std::chrono::seconds(10));
    CHECK(world.wires.size() > connections);
    CHECK(world.remote->status().state == VolumeStatus::State::open);
  }
  SUBCASE("slow") {
    world.volume->fragments.faults.stall_reads = true;
    const Deadline until = world.clock.boot() + Duration(std::chrono::seconds(20));
    const auto read = world.run(world.remote->read_fragment(a_fragment_read(0, 1), until));
    CHECK(code_of(read) == Errc::timeout);
    CHECK(world.wires.size() == connections);
    world.volume->fragments.release();
  }
}

TEST_CASE("over a slow link a connection stays as long as bytes pass") {
  TransportWorld world;
  world.connect();
  const std::size_t connections = world.wires.size();
  const auto flow = [&world](std::size_t bytes) {
    for (const FakeWire& wire : world.wires) {
      for (const auto& pipe : {wire.to_client, wire.to_server}) pipe->allow(bytes);
    }
  };
  int ended = 0;
  const auto run_slowly = [&](int all) {
    for (int second = 0; second < 40 && ended < all; ++second) {
      flow(64 * limits::kKiB);
      world.run_for(std::chrono::seconds(1));
    }
    CHECK(ended == all);
    CHECK(world.wires.size() == connections);
    flow(FakePipe::kAnyBytes);
  };
  const Deadline until = world.clock.boot() + Duration(std::chrono::seconds(60));
  REQUIRE(world.run(write_all(*world.remote, world.soon())));
  SUBCASE("answers, while others are asked for") {
    auto read = [](TransportWorld& w, Deadline end, Duration later, int& count) -> Awaitable<void> {
      co_await w.clock.sleep_until(w.clock.boot() + later);
      const auto piece =
          co_await w.remote->read_fragment(a_fragment_read(0, limits::kPieceBytes / 2), end);
      CHECK(piece);
      ++count;
    };
    for (int i = 0; i < 4; ++i) {
      const Duration later = std::chrono::seconds(i);
      boost::asio::co_spawn(world.io, read(world, until, later, ended), boost::asio::detached);
    }
    run_slowly(4);
  }
  SUBCASE("requests, with the question whether anybody is there behind them") {
    auto write = [](TransportWorld& w, Deadline end, int& count) -> Awaitable<void> {
      const auto written = co_await write_all(*w.remote, end);
      CHECK(written);
      ++count;
    };
    boost::asio::co_spawn(world.io, write(world, until, ended), boost::asio::detached);
    run_slowly(1);
  }
}

TEST_CASE("a process that stands still is left though its host takes what is sent to it") {
  TransportWorld world;
  world.connect();
  const std::size_t connections = world.wires.size();
  for (const FakeWire& wire : world.wires) wire.to_client->stalled = true;
  auto read = [](TransportWorld& w, Deadline end) -> Awaitable<void> {
    (void)co_await w.remote->read(a_read(), end);
  };
  const BootTime begun = world.clock.boot();
  while (world.wires.size() == connections &&
         world.clock.boot() - begun < Duration(std::chrono::seconds(20))) {
    boost::asio::co_spawn(world.io, read(world, world.soon()), boost::asio::detached);
    world.run_for(std::chrono::milliseconds(500));
  }
  CHECK(world.clock.boot() - begun <= Duration(limits::kPeerSilence) + std::chrono::seconds(3));
}

TEST_CASE("a request that has waited says how long its caller waits when it leaves") {
  TransportWorld world;
  const FakeWire wire;
  const auto end = wire.client_end();
  wire.to_server->bytes_max = 0;
  FrameSender sender(*end, &world.clock);
  auto run = [](FrameSender& own) -> Awaitable<void> { (void)co_await own.run(); };
  boost::asio::co_spawn(world.io, run(sender), boost::asio::detached);
  wire::Header header;
  header.operation = wire::Operation::read;
  header.patience_ms = 2000;
  for (int i = 0; i < 2; ++i) {
    OutFrame frame = make_frame(header, "");
    frame.deadline = world.clock.boot() + Duration(std::chrono::seconds(2));
    sender.push(std::move(frame));
    world.settle();  // the first one leaves, the second waits behind it
  }
  auto pass = [](Clock& clock) -> Task<> {
    co_await clock.sleep_until(clock.boot() + Duration(std::chrono::milliseconds(1500)));
    co_return Result<>{};
  };
  REQUIRE(world.run(pass(world.clock)));
  wire.to_server->bytes_max = 1 << 20;
  wire.to_server->writable.notify();
  world.settle();
  REQUIRE(wire.to_server->bytes.size() == 2 * wire::kHeaderBytes);
  std::string bytes;
  for (const std::byte byte : wire.to_server->bytes) bytes.push_back(static_cast<char>(byte));
  CHECK(wire::decode_header(bytes.substr(0, wire::kHeaderBytes))->patience_ms == 2000);
  CHECK(wire::decode_header(bytes.substr(wire::kHeaderBytes))->patience_ms == 500);
  sender.close();
  wire.cut();
  world.settle();
}

TEST_CASE("what a dial or a poll throws ends one try, not all that would come") {
  TransportWorld world;
  int dials = 0;
  world.links->dial = [&](std::string) {
    if (++dials <= 3) throw std::bad_alloc();
    return world.dial();
  };
  int polls = 0;
  world.links->announcement = [&polls] {
    if (++polls == 2) throw std::bad_alloc();
    return std::vector<wire::Place>{};
  };
  world.connect();
  world.run_for(std::chrono::seconds(3));
  CHECK(dials == 6);
  CHECK(polls > 2);
  CHECK(world.remote->status().state == VolumeStatus::State::open);
}

TEST_CASE("a volume that hangs holds up no other calls of its server") {
  TransportWorld world;
  world.connect();
  world.volume->fragments.faults.stall_reads = true;
  std::vector<Errc> ends;
  auto read = [](RemoteVolume& volume, Deadline until,
                 std::vector<Errc>& codes) -> Awaitable<void> {
    const auto piece =
        co_await volume.read_fragment(a_fragment_read(0, limits::kPieceBytes), until);
    codes.push_back(piece ? Errc::invalid : piece.error().code);
  };
  for (int i = 0; i < 100; ++i) {
    boost::asio::co_spawn(world.io, read(*world.remote, world.soon(), ends), boost::asio::detached);
  }
  world.run_for(std::chrono::milliseconds(100));
  CHECK(ends.empty());  // they wait in line
  CHECK(world.run(world.remote->read(a_read(), world.soon())));
  CHECK(world.remote->status().state == VolumeStatus::State::open);
  world.run_for(std::chrono::seconds(3));
  CHECK(ends.size() == 100);
  for (const Errc code : ends) CHECK((code == Errc::timeout || code == Errc::overloaded));
  world.volume->fragments.release(fail(Errc::io, "gone"));
  world.settle();
  for (const auto& connection : world.served) CHECK(connection->calls_under_way() == 0);
}

TEST_CASE("two maps of one epoch do not mix, and a newer one is heard of") {
  TransportWorld world;
  world.connect();
  world.client_map.digest[0] = 9;
  CHECK(code_of(world.run(world.remote->read(a_read(), world.soon()))) == Errc::stale_epoch);
  world.server_map.epoch = Epoch{6};
  CHECK(world.run(world.remote->read(a_read(), world.soon())));
  CHECK(world.heard.epoch == Epoch{6});
}

TEST_CASE("a server that leaves says so, and takes no new fragments from then on") {
  TransportWorld world;
  world.connect();
  CHECK_FALSE(world.remote->status().full);
  world.leaving = true;
  CHECK(world.run(world.remote->read(a_read(), world.soon())));
  CHECK(world.remote->status().full);
  CHECK(world.remote->status().reason == "its server stops");
  world.leaving = false;
  CHECK(world.run(world.remote->read(a_read(), world.soon())));
  CHECK_FALSE(world.remote->status().full);
}

TEST_CASE("a volume that the server does not have is unavailable") {
  TransportWorld world;
  world.connect();
  RemoteVolume other(VolumeId{99}, world.server, world.clock);
  CHECK(other.status().state == VolumeStatus::State::missing);
  CHECK(code_of(world.run(other.read(a_read(), world.soon()))) == Errc::unavailable);
  CHECK(code_of(world.run(write_all(other, world.soon()))) == Errc::unavailable);
}

TEST_CASE("upkeep calls reach the volume") {
  TransportWorld world;
  world.connect();
  REQUIRE(world.run(write_all(*world.remote, world.soon())));
  const FragmentId other{WriteId{8, 8}, 0, Generation{1}};
  const auto missing = world.run(world.remote->pin({kFragment, other}, world.soon()));
  REQUIRE(missing);
  CHECK(*missing == std::vector<FragmentId>{other});
  CHECK(world.run(world.remote->pin_for_reader({kFragment}, world.soon())));
  CHECK(world.volume->fragments.counters.reader_pins == 1);
  CHECK(code_of(world.run(world.remote->remove_fragment_if(kFragment, RemovalRule::unread,
                                                           world.soon()))) == Errc::busy);
  const auto listed = world.run(world.remote->list_fragments(std::nullopt, 10, world.soon()));
  REQUIRE(listed);
  REQUIRE(listed->size() == 1);
  CHECK(listed->front().id == kFragment);
  CHECK(world.run(world.remote->probe(world.soon())));
  CHECK(world.run(world.remote->remove_fragment(kFragment, world.soon())));
  CHECK_FALSE(world.volume->fragments.holds(kFragment));
  world.volume->acceptor.map = std::make_shared<const std::string>("{map}");
  const auto map = world.run(world.remote->read_map(world.soon()));
  REQUIRE(map);
  CHECK(**map == "{map}");
  world.volume->acceptor.horizon = 77;
  const auto state = world.run(world.remote->read_join_state(world.soon()));
  REQUIRE(state);
  CHECK(state->horizon == 77);
  CHECK(world.run(world.remote->list_hints({}, world.soon())));
  CHECK(world.run(world.remote->list_registers({}, world.soon())));
}

}  // namespace
}  // namespace penstock
