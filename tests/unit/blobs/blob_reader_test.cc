#include "server/blobs/blob_reader.h"

#include <bit>

#include "tests/fake/code_of.h"
#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kUnit = 64 << 10;

BlobWorldShape shaped(std::uint32_t k, std::uint32_t m) {
  BlobWorldShape shape;
  shape.k = k;
  shape.m = m;
  shape.volumes = k + m;
  return shape;
}

BlobRef without(BlobRef blob, std::uint32_t lost_slots) {
  for (std::uint32_t slot = 0; slot < blob.shape.slots(); ++slot) {
    if ((lost_slots >> slot & 1) != 0) blob.locations[slot] = Location{};
  }
  return blob;
}

TEST_CASE("every loss of up to m slots reads right, whole and in ranges") {
  std::mt19937_64 random(31);
  const std::pair<std::uint32_t, std::uint32_t> shapes[] = {{1, 2}, {2, 2}, {4, 2}, {8, 3}};
  for (const auto& [k, m] : shapes) {
    const std::size_t stripe = k * kUnit;
    const std::size_t sizes[] = {
        1, 16'383, 16'384, 16'385, 131072, stripe - 1, stripe, stripe + 1, 3 * stripe + 40'001};
    for (const std::size_t size : sizes) {
      CAPTURE(k);
      CAPTURE(size);
      BlobWorld world(shaped(k, m));
      world.set_cached(size % 2 == 1);
      const std::string body = BlobWorld::body(size);
      const auto blob = world.put(body);
      REQUIRE(blob.has_value());
      // All masks for small shapes; for 8+3 each of the 232 once on a random range.
      for (std::uint32_t lost = 0; lost < 1u << (k + m); ++lost) {
        if (std::popcount(lost) > static_cast<int>(m)) continue;
        const BlobRef left = without(*blob, lost);
        if (k < 8) REQUIRE(world.get(left).value() == body);
        const std::size_t offset = random() % size;
        const std::size_t length = 1 + random() % (size - offset);
        REQUIRE(world.get(left, offset, length).value() == body.substr(offset, length));
      }
      world.settle();
      CHECK(world.budget.used_bytes() == 0);
    }
  }
}

TEST_CASE("losing more than m slots is an error, never a wrong byte") {
  BlobWorld world;
  const std::string body = BlobWorld::body(5 * 4 * kUnit + 3);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  CHECK(world.get(without(*blob, 0b10101)).error().code == Errc::corrupt);
  CHECK(world.get(without(*blob, 0b111111)).error().code == Errc::not_found);
  for (const std::size_t i : {0, 1, 2}) {
    world.volumes[i]->faults.state = VolumeStatus::State::closed;
  }
  CHECK(world.get(*blob).error().code == Errc::unavailable);
  for (auto& volume : world.volumes) {
    volume->faults.state = VolumeStatus::State::open;
    volume->lose_all();
  }
  CHECK(world.get(*blob).error().code == Errc::not_found);
}

TEST_CASE("corrupt, missing, closed and failing fragments are rebuilt and reported once") {
  const std::string body = BlobWorld::body(8 * 4 * kUnit);
  const std::pair<Errc, bool> rows[] = {{Errc::corrupt, true}, {Errc::not_found, true},
                                        {Errc::invalid, true}, {Errc::unavailable, false},
                                        {Errc::io, false},     {Errc::overloaded, false},
                                        {Errc::timeout, false}};
  for (const auto& [code, is_damage] : rows) {
    for (const bool cached : {false, true}) {
      CAPTURE(to_string(code));
      BlobWorld world;
      world.set_cached(cached);
      const auto blob = world.put(body);
      REQUIRE(blob.has_value());
      for (const std::uint32_t slot : {1u, 4u}) {
        world.slot(*blob, slot).faults.fail_reads = true;
        world.slot(*blob, slot).faults.read_error = code;
      }
      CHECK(world.get(*blob).value() == body);
      CHECK(world.damaged.size() == (is_damage ? 2 : 0));
      for (const auto& [slot, why] : world.damaged) CHECK(why == code);
      for (const std::uint32_t slot : {0u, 1u, 4u}) {
        const std::uint64_t counted = world.membership->damaged(blob->locations[slot].volume);
        CHECK(counted == (is_damage && slot != 0 ? 1 : 0));
      }
    }
  }
}

TEST_CASE("corrupt blocks in all fragments are survived where no column loses more than m") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  // Block b of fragments b and b+1: each column keeps four of six, no fragment is whole.
  for (std::uint32_t block = 0; block < 4; ++block) {
    for (const std::uint32_t slot : {block, block + 1}) {
      world.slot(*blob, slot).corrupt(blob->fragment(slot), block * limits::kBlockBytes);
    }
  }
  CHECK(world.get(*blob).value() == body);
  CHECK(world.get(*blob, 5, 200'000).value() == body.substr(5, 200'000));
  // A third loss in one column is one too many there, and only there.
  world.slot(*blob, 3).corrupt(blob->fragment(3), 0);
  CHECK(world.get(*blob, 0, 100).error().code == Errc::corrupt);
  CHECK(world.get(*blob, 20'000, 40'000).value() == body.substr(20'000, 40'000));
}

TEST_CASE("ranges of several blobs come one after another") {
  BlobWorld world;
  const std::string one = BlobWorld::body(300'000, 1), two = BlobWorld::body(70'000, 2);
  const auto first = world.put(one), second = world.put(two);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  std::vector<BlobRange> ranges(4);
  ranges[0].blob = *first;
  ranges[0].offset = 250'000;
  ranges[0].length = 50'000;
  ranges[1].blob = *second;
  ranges[1].length = 70'000;
  ranges[2].blob = *first;  // an empty range in the middle
  ranges[3].blob = *first;
  ranges[3].length = 300'000;
  for (const bool cached : {false, true}) {
    world.set_cached(cached);
    CHECK(run_task(world.io, world.clock, world.read(ranges)).value() ==
          one.substr(250'000) + two + one);
  }
}

TEST_CASE("a range beyond its blob is refused") {
  BlobWorld world;
  const auto blob = world.put(BlobWorld::body(1000));
  REQUIRE(blob.has_value());
  CHECK(code_of(world.get(*blob, 0, 1001)) == Errc::invalid);
  CHECK(code_of(world.get(*blob, 1001, 1)) == Errc::invalid);
  CHECK(code_of(world.get(*blob, ~0ull, 2)) == Errc::invalid);
  CHECK(world.get(*blob, 1000, 0).value().empty());
}

TEST_CASE("an aligned range of 8 MiB costs a read of each piece and no more") {
  constexpr int kPieces = (8 << 20) / limits::kPieceBytes;
  BlobWorld world({.unit_bytes = 2 << 20});
  const std::string body = BlobWorld::body(24 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  const auto sum = [&](int FakeHolder::Counters::*counter) {
    int total = 0;
    for (auto& volume : world.volumes) total += volume->counters.*counter;
    return total;
  };
  world.set_cached(true);
  CHECK(world.get(*blob, 8 << 20, 8 << 20).value() == body.substr(8 << 20, 8 << 20));
  CHECK(sum(&FakeHolder::Counters::reads_now) == kPieces);
  CHECK(sum(&FakeHolder::Counters::reads) == 0);
  CHECK(world.pieces == kPieces);
  world.set_cached(false);
  CHECK(world.get(*blob, 8 << 20, 8 << 20).value() == body.substr(8 << 20, 8 << 20));
  CHECK(sum(&FakeHolder::Counters::reads) == kPieces);
}

TEST_CASE("a stripe without one or two of its units is read once") {
  BlobWorldShape shape;
  shape.unit_bytes = 2 << 20;
  for (std::uint32_t lost = 1; lost < 1u << 6; ++lost) {
    if (std::popcount(lost) > 2) continue;
    CAPTURE(lost);
    BlobWorld world(shape);
    const std::string body = BlobWorld::body(8 << 20);
    const auto blob = world.put(body, 1 << 20);
    REQUIRE(blob.has_value());
    world.set_cached(true);
    CHECK(world.get(without(*blob, lost)).value() == body);
    std::uint64_t bytes = 0;
    for (auto& volume : world.volumes) bytes += volume->counters.bytes_read;
    CHECK(bytes == body.size());
    world.settle();
    CHECK(world.budget.used_bytes() == 0);
  }
}

TEST_CASE("of a stripe that misses units and comes later little is read twice") {
  for (const int missing : {1, 2}) {
    std::uint64_t bytes = 0, wanted = 0;
    for (std::uint32_t lost = 1; lost < 1u << 6; ++lost) {
      if (std::popcount(lost) != missing) continue;
      BlobWorld world({.unit_bytes = limits::kPieceBytes});
      const std::string body = BlobWorld::body(8 << 20);
      const auto blob = world.put(body, 1 << 20);
      REQUIRE(blob.has_value());
      for (auto& volume : world.volumes) volume->faults.late_reads = 3;
      CHECK(world.get(without(*blob, lost)).value() == body);
      for (auto& volume : world.volumes) bytes += volume->counters.bytes_read;
      wanted += body.size();
      world.settle();
    }
    CHECK(static_cast<double>(bytes) < (missing == 1 ? 1.25 : 1.4) * static_cast<double>(wanted));
  }
}

TEST_CASE("a reader keeps nothing of a stripe while others need the memory") {
  BlobWorld world({.unit_bytes = 2 << 20});
  const std::string body = BlobWorld::body(8 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  world.set_cached(true);
  const auto most = world.budget.take(world.budget.limit_bytes() / 4 * 3 + 1);
  REQUIRE(most.has_value());
  CHECK(world.get(without(*blob, 0b101)).value() == body);
  std::uint64_t bytes = 0;
  for (auto& volume : world.volumes) bytes += volume->counters.bytes_read;
  // Both lost slots have data: their units are rebuilt from four reads each, the others are read.
  CHECK(bytes == body.size() / 2 + 4 * (body.size() / 2));
  world.settle();
  CHECK(world.budget.used_bytes() == most->bytes());
}

TEST_CASE("what a reader keeps is given back with the bytes that a slow client could not use") {
  BlobWorld world({.unit_bytes = 2 << 20});
  const std::string body = BlobWorld::body(8 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  world.set_cached(true);
  std::vector<BlobRange> ranges(1);
  ranges[0].blob = without(*blob, 0b1);
  ranges[0].length = body.size();
  {
    BlobReader reader = world.blobs->read(std::move(ranges), false, nullptr);
    const auto piece = run_task(world.io, world.clock, reader.next(world.deadline()));
    REQUIRE(piece.has_value());
    CHECK(as_text(piece->bytes()) == body.substr(0, piece->length));
    CHECK(world.budget.used_bytes() > 4 * (1 << 20));
    reader.put_back(piece->length);
    CHECK(world.budget.used_bytes() == 0);
  }
  world.settle();
}

TEST_CASE("a small range of a lost unit reads only its columns") {
  BlobWorld world({.unit_bytes = 2 << 20});
  const std::string body = BlobWorld::body(8 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  CHECK(world.get(without(*blob, 1), 500'000, 100'000).value() == body.substr(500'000, 100'000));
  std::uint64_t bytes = 0;
  for (auto& volume : world.volumes) bytes += volume->counters.bytes_read;
  CHECK(bytes == 4 * 100'000);
}

TEST_CASE("a late volume is hedged after 20 ms and suspected after 2 s") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  world.slot(*blob, 2).faults.stall_reads = true;
  const BootTime before = world.clock.boot();
  CHECK(world.get(*blob).value() == body);
  CHECK(world.clock.boot() - before == milliseconds(20));
  CHECK_FALSE(world.membership->suspect(blob->locations[2].volume));
  world.clock.advance(seconds(2));
  world.io.restart();
  world.io.poll();
  CHECK(world.membership->suspect(blob->locations[2].volume));
  CHECK(world.damaged.empty());
  // From now on it is not even asked.
  const int asked = world.slot(*blob, 2).counters.reads;
  CHECK(world.get(*blob).value() == body);
  CHECK(world.slot(*blob, 2).counters.reads == asked);
}

TEST_CASE("a suspect volume is not asked for what it may have in memory either") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  for (const auto& volume : world.volumes) volume->faults.cached = true;
  world.membership->report_stalled(blob->locations[2].volume);
  CHECK(world.get(*blob).value() == body);
  CHECK(world.slot(*blob, 2).counters.reads_now == 0);
  CHECK(world.slot(*blob, 2).counters.reads == 0);
  CHECK(world.slot(*blob, 1).counters.reads_now > 0);
}

TEST_CASE("a read that lost the race is watched until it answers, and keeps no memory") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  FakeHolder& late = world.slot(*blob, 2);
  late.faults.stall_reads = true;
  CHECK(world.get(*blob).value() == body);
  CHECK(world.clock.waiters() == 1);  // the watch
  SUBCASE("it answers") {
    late.release();
    world.io.restart();
    world.io.poll();  // time stands still
    CHECK(world.clock.waiters() == 0);
    CHECK(world.budget.used_bytes() == 0);
    world.clock.advance(seconds(3));
    CHECK_FALSE(world.membership->suspect(blob->locations[2].volume));
  }
  SUBCASE("everything ends before") {}
}

TEST_CASE("hedges are 5 % of the reads; without budget a stalled read is given up after 2 s") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  while (world.blobs->hedges().spend(1)) {
  }
  world.slot(*blob, 2).faults.stall_reads = true;
  const BootTime before = world.clock.boot();
  CHECK(world.get(*blob).value() == body);
  CHECK(world.clock.boot() - before == seconds(2));
  CHECK(world.membership->suspect(blob->locations[2].volume));
  HedgeBudget budget;
  int burst = 0;
  while (budget.spend(1)) ++burst;
  CHECK(burst == 128);
  for (int i = 0; i < 100; ++i) budget.earn();
  int extra = 0;
  while (budget.spend(1)) ++extra;
  CHECK(extra == 5);
}

TEST_CASE("when all volumes are late no extra read is sent") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  for (auto& volume : world.volumes) volume->faults.stall_reads = true;
  auto ended = std::make_shared<std::optional<Result<std::string>>>();
  std::vector<BlobRange> ranges(1);
  ranges[0].blob = *blob;
  ranges[0].length = body.size();
  boost::asio::co_spawn(world.io, world.read(ranges),
                        [ended](std::exception_ptr, Result<std::string> text) { *ended = text; });
  run_until(world.io, world.clock,
            [&, end = world.clock.boot() + milliseconds(20)] { return world.clock.boot() >= end; });
  world.io.restart();
  world.io.poll();
  int reads = 0;
  for (auto& volume : world.volumes) reads += volume->counters.reads;
  CHECK(reads == 4);
  for (auto& volume : world.volumes) volume->faults.stall_reads = false;
  for (auto& volume : world.volumes) volume->release();
  run_until(world.io, world.clock, [&] { return ended->has_value(); });
  CHECK((*ended)->value() == body);
}

TEST_CASE("a reader that never gets an answer ends at its deadline") {
  BlobWorld world(shaped(1, 2));
  const auto blob = world.put(BlobWorld::body(1000));
  REQUIRE(blob.has_value());
  for (auto& volume : world.volumes) volume->faults.stall_reads = true;
  const BootTime before = world.clock.boot();
  const auto text = world.get(*blob);
  REQUIRE(text.has_error());
  CHECK(text.error().code == Errc::timeout);
  CHECK(world.clock.boot() - before == seconds(30));
}

TEST_CASE("a reader without memory says so; with little it fetches nothing ahead") {
  BlobWorld world({.unit_bytes = 2 << 20});
  const std::string body = BlobWorld::body(16 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  {
    auto most = world.budget.take(world.budget.limit_bytes() - (1 << 20));
    REQUIRE(most.has_value());
    CHECK(world.get(*blob).value() == body);
    world.settle();
    CHECK(world.budget.used_bytes() == most->bytes());
    auto rest = world.budget.take(1 << 20);
    REQUIRE(rest.has_value());
    CHECK(world.get(*blob).error().code == Errc::overloaded);
  }
  world.settle();
  CHECK(world.budget.used_bytes() == 0);
}

TEST_CASE("a reader that is destroyed early leaves its reads to end by themselves") {
  BlobWorld world;
  const std::string body = BlobWorld::body(16 * 4 * kUnit);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  std::vector<BlobRange> ranges(1);
  ranges[0].blob = *blob;
  ranges[0].length = body.size();
  std::unique_ptr<BlobReader> reader(new BlobReader(world.blobs->read(ranges, false, nullptr)));
  const auto piece = run_task(world.io, world.clock, reader->next(world.deadline()));
  REQUIRE(piece.has_value());
  CHECK(as_text(piece->bytes()) == body.substr(0, piece->length));
  reader.reset();
  world.settle();
  CHECK(world.budget.used_bytes() == 0);
}

TEST_CASE("what is put back comes again, in small pieces first, and costs nothing meanwhile") {
  BlobWorld world({.unit_bytes = 2 << 20});
  const std::string first = BlobWorld::body(9 << 20, 1);
  const std::string second = BlobWorld::body(3 << 20, 2);
  const std::string whole = first.substr(5, (9 << 20) - 10) + second;
  for (const bool cached : {false, true}) {
    std::vector<BlobRange> ranges(3);
    ranges[0] = {world.put(first, 1 << 20).value(), 5, (9 << 20) - 10};
    ranges[1] = {ranges[0].blob, 0, 0};
    ranges[2] = {world.put(second, 1 << 20).value(), 0, 3 << 20};
    world.set_cached(cached);
    BlobReader reader = world.blobs->read(ranges, false, nullptr);
    std::string read;
    std::size_t smallest = 1 << 20;
    for (int i = 0; read.size() < whole.size(); ++i) {
      auto piece = run_task(world.io, world.clock, reader.next(world.deadline()));
      REQUIRE(piece.has_value());
      const std::size_t length = piece->length;
      smallest = std::min(smallest, length);
      const std::size_t used = i % 7 == 3 ? length / 3 : length;
      read += as_text(piece->bytes().first(used));
      piece = Piece{};
      if (used == length) continue;
      reader.put_back(length - used);
      world.settle();
      CHECK(world.budget.used_bytes() == 0);
    }
    CHECK(read == whole);
    CHECK(smallest <= limits::kSmallPieceBytes);
    const auto end = run_task(world.io, world.clock, reader.next(world.deadline()));
    CHECK(end.value().length == 0);
    world.set_cached(false);
  }
}

TEST_CASE("a reader waits for memory, and takes small pieces when there is little") {
  BlobWorld world;
  const std::string body = BlobWorld::body(3 << 20);
  const auto blob = world.put(body, 1 << 20);
  REQUIRE(blob.has_value());
  auto most = world.budget.take(world.budget.limit_bytes() - limits::kSmallPieceBytes);
  REQUIRE(most.has_value());
  CHECK(world.get(*blob).value() == body);
  auto rest = world.budget.take(limits::kSmallPieceBytes);
  REQUIRE(rest.has_value());
  const BootTime before = world.clock.boot();
  CHECK(world.get(*blob).error().code == Errc::overloaded);
  CHECK(world.clock.boot() - before >= Duration(limits::kMemoryWait));
}

TEST_CASE("read_whole gives the whole blob, and needs memory for it") {
  BlobWorld world;
  const std::string body = BlobWorld::body(500'000);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  const auto read = [&](const BlobRef& what) {
    return run_task(world.io, world.clock, world.blobs->read_whole(what, world.deadline()));
  };
  CHECK(read(*blob).value() == body);
  CHECK(read(without(*blob, 0b11)).value() == body);
  CHECK(read(without(*blob, 0b111)).has_error());
  auto most = world.budget.take(world.budget.limit_bytes() - 400'000);
  REQUIRE(most.has_value());
  CHECK(read(*blob).error().code == Errc::overloaded);
}

}  // namespace
}  // namespace penstock
