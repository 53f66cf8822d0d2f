// How readers share the memory for bodies.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "penstock/limits.h"
#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

std::string read_on(BlobWorld& world, BlobReader& reader) {
  std::string text;
  while (true) {
    const auto piece = run_task(world.io, world.clock, reader.next(world.deadline()));
    REQUIRE(piece.has_value());
    if (piece->length == 0) return text;
    text += as_text(piece->bytes());
  }
}

TEST_CASE("as readers come their pieces get smaller, and none of them waits for another one's") {
  BlobWorldShape shape;
  shape.unit_bytes = 2 << 20;
  BlobWorld world(shape);
  const std::string body = BlobWorld::body(8 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  world.set_cached(true);
  // Of one account: it gets four fifths of the 64 MiB.
  const MemoryAccount account = world.budget.account("one");
  constexpr std::size_t kReaders = 100;
  std::vector<std::unique_ptr<BlobReader>> readers;
  std::vector<std::string> texts;
  const BootTime before = world.clock.boot();
  for (std::size_t i = 0; i < kReaders; ++i) {
    const std::vector<BlobRange> range{{*blob, 0, body.size()}};
    readers.emplace_back(new BlobReader(world.blobs->read(range, false, nullptr, account)));
    const auto piece = run_task(world.io, world.clock, readers[i]->next(world.deadline()));
    REQUIRE(piece.has_value());
    texts.emplace_back(as_text(piece->bytes()));
  }
  CHECK(world.clock.boot() == before);
  CHECK(texts.front().size() == limits::kPieceBytes);
  CHECK(texts.back().size() == limits::kSmallPieceBytes);
  for (const std::size_t i : {std::size_t{0}, kReaders / 2, kReaders - 1}) {
    CHECK(texts[i] + read_on(world, *readers[i]) == body);
  }
  CHECK(world.clock.boot() == before);
  // The others have room again, and use it.
  readers.resize(8);
  CHECK(texts[7] + read_on(world, *readers[7]) == body);
  world.pieces = 0;
  CHECK(world.get(*blob).value() == body);
  CHECK(world.pieces == 8);
}

TEST_CASE("a reader beside uploads that hold all they may still gets large pieces") {
  BlobWorldShape shape;
  shape.unit_bytes = 2 << 20;
  BlobWorld world(shape);
  const std::string body = BlobWorld::body(8 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  world.set_cached(true);
  const auto uploads =
      world.budget.take({MemoryUse::writes, {}}, world.budget.limit_bytes() / 5 * 4);
  REQUIRE(uploads.has_value());
  CHECK(world.get(*blob).value() == body);
  CHECK(world.pieces == 8);
}

TEST_CASE("a greedy account leaves another one pieces of some size") {
  BlobWorldShape shape;
  shape.unit_bytes = 2 << 20;
  BlobWorld world(shape);
  const std::string body = BlobWorld::body(8 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  world.set_cached(true);
  const MemoryUser greedy{MemoryUse::reads, world.budget.account("b")};
  const auto held = world.budget.take(greedy, world.budget.limit_bytes() / 5 * 4);
  REQUIRE(held.has_value());
  const std::vector<BlobRange> range{{*blob, 0, body.size()}};
  BlobReader reader = world.blobs->read(range, false, nullptr, world.budget.account("a"));
  const auto piece = run_task(world.io, world.clock, reader.next(world.deadline()));
  REQUIRE(piece.has_value());
  CHECK(piece->length >= 2 * limits::kSmallPieceBytes);
}

TEST_CASE("what is read ahead leaves room for others") {
  BlobWorldShape shape;
  shape.unit_bytes = 2 << 20;
  BlobWorld world(shape);
  const auto blob = world.put(BlobWorld::body(8 << 20), 1 << 20);
  REQUIRE(blob.has_value());
  const MemoryAccount account = world.budget.account("one");
  std::vector<std::unique_ptr<BlobReader>> readers;
  const BootTime before = world.clock.boot();
  for (int i = 0; i < 64; ++i) {
    const std::vector<BlobRange> range{{*blob, 0, 8 << 20}};
    readers.emplace_back(new BlobReader(world.blobs->read(range, false, nullptr, account)));
    CHECK(run_task(world.io, world.clock, readers.back()->next(world.deadline())).has_value());
    if (i == 0) CHECK(world.budget.used_bytes() == 4 * limits::kPieceBytes);
  }
  CHECK(world.clock.boot() == before);
}

TEST_CASE("what readers keep to rebuild with leaves others what they need to rebuild") {
  BlobWorldShape shape;
  shape.unit_bytes = 2 << 20;
  BlobWorld world(shape);
  const std::string body = BlobWorld::body(8 << 20);
  auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  blob->locations[0] = blob->locations[1] = Location{};
  world.set_cached(true);
  const MemoryAccount account = world.budget.account("one");
  std::vector<std::unique_ptr<BlobReader>> readers;
  std::vector<std::string> texts;
  const BootTime before = world.clock.boot();
  for (std::size_t i = 0; i < 40; ++i) {
    const std::vector<BlobRange> range{{*blob, 0, body.size()}};
    readers.emplace_back(new BlobReader(world.blobs->read(range, false, nullptr, account)));
    const auto piece = run_task(world.io, world.clock, readers[i]->next(world.deadline()));
    REQUIRE(piece.has_value());
    texts.emplace_back(as_text(piece->bytes()));
  }
  CHECK(texts.front().size() == limits::kPieceBytes);
  CHECK(texts.back() + read_on(world, *readers.back()) == body);
  CHECK(texts.front() + read_on(world, *readers.front()) == body);
  CHECK(world.clock.boot() == before);
}

}  // namespace
}  // namespace penstock
