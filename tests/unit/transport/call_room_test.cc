// Many calls at a time, over connections that have room for few: they wait, and none is refused.
#include "server/transport/call_room.h"

#include <doctest/doctest.h>

#include <new>

#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

constexpr std::uint64_t kBytes = 2 * limits::kPieceBytes;
constexpr std::uint64_t kBlocks = limits::kPieceBytes / limits::kBlockBytes;
const WriteId kWrite{1, 2};

FragmentId fragment(std::uint64_t number) { return {kWrite, 3, Generation{number}}; }

std::vector<std::uint32_t> crcs_of(std::uint64_t first_block, const Buffer& data) {
  std::vector<std::uint32_t> crcs;
  for (std::size_t at = 0; at < data.size(); at += limits::kBlockBytes) {
    const auto block = data.bytes().subspan(at, limits::kBlockBytes);
    crcs.push_back(fragment_block_crc(kWrite, 3, first_block++, block));
  }
  return crcs;
}

Result<std::unique_ptr<FragmentWriter>> open(TransportWorld& world, std::uint64_t number,
                                             Deadline until) {
  FragmentShape shape;
  shape.data_bytes = kBytes;
  return world.run(world.remote->write_fragment(fragment(number), shape, until));
}

Task<> fill(FragmentWriter& writer, Deadline until) {
  const Buffer piece = Buffer::copy_of(as_bytes(std::string(limits::kPieceBytes, 'a')));
  CO_CHECK(co_await writer.append(piece, crcs_of(0, piece), until));
  CO_CHECK(co_await writer.append(piece, crcs_of(kBlocks, piece), until));
  co_return co_await writer.commit(until);
}

struct Ends {
  std::size_t well = 0;
  std::vector<Errc> errors;
  std::size_t count() const { return well + errors.size(); }
};
Awaitable<void> fill_one(FragmentWriter& writer, Deadline until, Ends& ends) {
  const auto done = co_await fill(writer, until);
  if (!done) ends.errors.push_back(done.error().code);
  if (done) ++ends.well;
}
Awaitable<void> read_one(TransportWorld& world, Deadline until, Ends& ends) {
  FragmentReadRequest request;
  request.id = fragment(0);
  request.length = limits::kPieceBytes;
  const auto done = co_await world.remote->read_fragment(request, until);
  if (!done) ends.errors.push_back(done.error().code);
  if (done) ++ends.well;
}

// The server has so many volumes, whatever they do.
void share_among(TransportWorld& world, std::size_t count) {
  world.service->volumes = [&world, count] {
    std::vector<std::shared_ptr<VolumeClient>> volumes{world.volume};
    for (std::uint64_t i = 1; i < count; ++i) {
      volumes.push_back(std::make_shared<FakeVolume>(VolumeId{100 + i}, world.clock, world.io));
    }
    return volumes;
  };
}

TEST_CASE("large reads of one volume wait for one another") {
  TransportWorld world;
  share_among(world, 6);
  world.connect();
  const Deadline until = world.clock.boot() + Duration(std::chrono::seconds(20));
  auto writer = open(world, 0, until);
  REQUIRE(writer);
  REQUIRE(world.run(fill(**writer, until)));
  Ends ends;
  for (int i = 0; i < 64; ++i) {
    boost::asio::co_spawn(world.io, read_one(world, until, ends), boost::asio::detached);
  }
  REQUIRE(run_until(world.io, world.clock, [&] { return ends.count() == 64; }));
  CHECK(ends.well == 64);
  world.settle();
  for (const auto& connection : world.served) CHECK(connection->calls_under_way() == 0);
}

TEST_CASE("no piece of a fragment is refused, however many fragments are written") {
  TransportWorld world;
  share_among(world, 12);
  world.connect();
  const Deadline until = world.clock.boot() + Duration(std::chrono::seconds(20));
  std::vector<std::unique_ptr<FragmentWriter>> writers;
  for (std::uint64_t i = 0; i < 40; ++i) {
    auto writer = open(world, i, until);
    REQUIRE(writer);
    writers.push_back(std::move(*writer));
  }
  const std::size_t before = world.wires.back().to_server->passed;
  for (const FakeWire& wire : world.wires) wire.to_client->bytes_max = 0;  // no answer leaves
  Ends ends;
  for (const auto& writer : writers) {
    boost::asio::co_spawn(world.io, fill_one(*writer, until, ends), boost::asio::detached);
  }
  world.run_for(std::chrono::milliseconds(200));
  CHECK(ends.count() == 0);
  CHECK(world.wires.back().to_server->passed - before < 3 * limits::kPieceBytes);
  for (const FakeWire& wire : world.wires) {
    wire.to_client->bytes_max = 1 << 20;
    wire.to_client->wake();
  }
  REQUIRE(run_until(world.io, world.clock, [&] { return ends.count() == 40; }));
  CHECK(ends.well == 40);
  CHECK(world.volume->fragments.fragment_count() == 40);
}

TEST_CASE("a commit for which there is no memory is sent again") {
  TransportWorld world;
  MemoryBudget budget(16 * limits::kMiB);
  world.service->budget = &budget;
  world.connect();
  const Deadline until = world.clock.boot() + Duration(std::chrono::seconds(20));
  auto writer = open(world, 1, until);
  REQUIRE(writer);
  const Buffer piece = Buffer::copy_of(as_bytes(std::string(limits::kPieceBytes, 'a')));
  REQUIRE(world.run((*writer)->append(piece, crcs_of(0, piece), until)));
  REQUIRE(world.run((*writer)->append(piece, crcs_of(kBlocks, piece), until)));
  world.run_for(std::chrono::milliseconds(1));
  auto all = budget.take(budget.limit_bytes() - budget.used_bytes());
  REQUIRE(all);
  std::optional<Result<>> done;
  auto commit = [](FragmentWriter& own, Deadline end,
                   std::optional<Result<>>& told) -> Awaitable<void> {
    told.emplace(co_await own.commit(end));
  };
  boost::asio::co_spawn(world.io, commit(**writer, until, done), boost::asio::detached);
  world.run_for(std::chrono::seconds(1));
  CHECK_FALSE(done);
  *all = MemoryBudget::Lease{};
  REQUIRE(run_until(world.io, world.clock, [&] { return done.has_value(); }));
  CHECK(*done);
}

TEST_CASE("a list has memory before it is made, and gives back what it does not need") {
  TransportWorld world;
  MemoryBudget budget(64 * limits::kMiB);
  world.service->budget = &budget;
  world.connect();
  world.volume->scan_delay = std::chrono::milliseconds(100);
  std::optional<bool> done;
  auto scan = [](TransportWorld& own, std::optional<bool>& told) -> Awaitable<void> {
    const auto reply = co_await own.remote->scan(std::make_shared<ScanRequest>(), own.soon());
    told = reply.has_value();
  };
  boost::asio::co_spawn(world.io, scan(world, done), boost::asio::detached);
  world.run_for(std::chrono::milliseconds(50));
  CHECK(budget.used_bytes() >= limits::kReplyBytesMax);
  REQUIRE(run_until(world.io, world.clock, [&] { return done.has_value(); }));
  CHECK(*done);
  CHECK(budget.used_bytes() == 0);
}

}  // namespace
}  // namespace penstock
