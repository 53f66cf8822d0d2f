// How readers share the memory for bodies.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "penstock/limits.h"
#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

// A blob of 8 MiB, and those who read it: each has its first piece, whose memory it holds.
struct RoomWorld : BlobWorld {
  explicit RoomWorld(bool cached = true, bool floors = false)
      : BlobWorld({.unit_bytes = 2 << 20, .memory_floors = floors}) {
    auto written = put(text, 1 << 20);
    REQUIRE(written.has_value());
    blob = *written;
    set_cached(cached);
  }
  void add_reader(MemoryAccount account) {
    const std::vector<BlobRange> range{{blob, 0, text.size()}};
    readers.emplace_back(new BlobReader(blobs->read(range, false, nullptr, account)));
    firsts.push_back(next(*readers.back()));
  }
  // The next piece; empty at the end.
  std::string next(BlobReader& reader) {
    const auto piece = run_task(io, clock, reader.next(deadline()));
    REQUIRE(piece.has_value());
    return std::string(as_text(piece->bytes()));
  }
  std::string read_on(std::size_t reader) {
    std::string read = firsts[reader];
    for (std::string piece = next(*readers[reader]); !piece.empty();
         piece = next(*readers[reader])) {
      read += piece;
    }
    return read;
  }

  const std::string text = body(8 << 20);
  BlobRef blob;
  std::vector<std::unique_ptr<BlobReader>> readers;
  std::vector<std::string> firsts;  // by reader
  const BootTime began = clock.boot();
  const MemoryAccount one = budget.account("a"), other = budget.account("b");
};

TEST_CASE("as readers come their pieces get smaller, and none of them waits for another one's") {
  RoomWorld world;
  constexpr std::size_t kReaders = 150;
  for (std::size_t i = 0; i < kReaders; ++i) world.add_reader(world.one);
  CHECK(world.clock.boot() == world.began);
  CHECK(world.firsts.front().size() == limits::kPieceBytes);
  CHECK(world.firsts.back().size() == limits::kSmallPieceBytes);
  for (const std::size_t i : {std::size_t{0}, kReaders / 2, kReaders - 1}) {
    CHECK(world.read_on(i) == world.text);
  }
  CHECK(world.clock.boot() == world.began);
  // The others have room again, and use it.
  world.readers.resize(8);
  CHECK(world.read_on(7) == world.text);
  world.pieces = 0;
  CHECK(world.get(world.blob).value() == world.text);
  CHECK(world.pieces == 16);
}

TEST_CASE("a reader beside uploads that hold all they may still gets large pieces") {
  RoomWorld world;
  const auto uploads =
      world.budget.take({MemoryUse::writes, {}}, world.budget.limit_bytes() / 5 * 4);
  REQUIRE(uploads.has_value());
  CHECK(world.get(world.blob).value() == world.text);
  CHECK(world.pieces == 16);
}

TEST_CASE("a greedy account leaves another one pieces of some size") {
  RoomWorld world;
  const auto held =
      world.budget.take({MemoryUse::reads, world.other}, world.budget.limit_bytes() / 5 * 4);
  REQUIRE(held.has_value());
  world.add_reader(world.one);
  CHECK(world.firsts.back().size() >= 2 * limits::kSmallPieceBytes);
}

TEST_CASE("what is read ahead leaves room for others") {
  RoomWorld world(false);
  for (int i = 0; i < 64; ++i) {
    world.add_reader(world.one);
    if (i == 0) CHECK(world.budget.used_bytes() == 8 * limits::kPieceBytes);
  }
  CHECK(world.clock.boot() == world.began);
}

TEST_CASE("a reader keeps nothing of a stripe while other readers need the memory") {
  RoomWorld world(true, true);
  world.blob.locations[0] = world.blob.locations[2] = Location{};
  const MemoryUser user{MemoryUse::reads, world.one};
  const auto most = world.budget.take(user, world.budget.room_for(user) - (1 << 20));
  REQUIRE(most.has_value());
  CHECK(world.budget.has_some());
  world.add_reader(world.one);
  CHECK(world.read_on(0) == world.text);
  std::uint64_t bytes = 0;
  for (auto& volume : world.volumes) bytes += volume->counters.bytes_read;
  // The units of both lost slots are rebuilt from four reads each, the others are read.
  CHECK(bytes == world.text.size() / 2 + 4 * (world.text.size() / 2));
}

TEST_CASE("with two volumes gone many readers find what they need to rebuild, and do not wait") {
  RoomWorld world;
  world.blob.locations[0] = world.blob.locations[1] = Location{};
  for (int i = 0; i < 56; ++i) world.add_reader(world.one);
  CHECK(world.firsts.front().size() == limits::kPieceBytes);
  CHECK(world.read_on(55) == world.text);
  CHECK(world.read_on(0) == world.text);
  CHECK(world.clock.boot() == world.began);
}

}  // namespace
}  // namespace penstock
