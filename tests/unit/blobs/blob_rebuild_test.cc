// Which fragments a reader asks, and how often, when some of them are lost, late or suspect.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "server/membership/slow_volumes.h"
#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kSmallUnit = 64 << 10;
constexpr std::size_t kLargeUnit = 2 * limits::kPieceBytes;

// One stripe of 4+2, where unit u lies in slot u. Its first units are read.
struct OneStripe {
  explicit OneStripe(std::size_t unit, std::size_t read_bytes)
      : world(shape_of(unit)),
        body(BlobWorld::body(4 * unit)),
        blob(world.put(body, 1 << 20).value()) {
    wanted.resize(1);
    wanted[0].blob = blob;
    wanted[0].length = read_bytes;
    world.settle();
  }
  static BlobWorldShape shape_of(std::size_t unit) {
    BlobWorldShape shape;
    shape.unit_bytes = unit;
    return shape;
  }
  FakeHolder& at(std::uint32_t unit) { return world.slot(blob, unit); }
  bool suspect(std::uint32_t unit) { return world.membership->suspect(at(unit).id()); }
  void fail(std::initializer_list<std::uint32_t> units) {
    for (const std::uint32_t unit : units) {
      at(unit).faults.fail_reads = true;
      at(unit).faults.read_error = Errc::io;
    }
  }
  void lose(std::uint32_t unit) { wanted[0].blob.locations[unit] = Location{}; }
  std::string text() const { return body.substr(0, wanted[0].length); }
  Result<std::string> get() { return run_task(world.io, world.clock, world.read(wanted)); }
  std::unique_ptr<BlobReader> reader() {
    return std::unique_ptr<BlobReader>(new BlobReader(world.blobs->read(wanted, false, nullptr)));
  }
  Result<Piece> next(BlobReader& reader) {
    return run_task(world.io, world.clock, reader.next(world.deadline()));
  }
  // Too much is used for a reader to fetch anything ahead.
  MemoryBudget::Lease use_most_memory() {
    return world.budget.take(world.budget.limit_bytes() / 4 * 3).value();
  }
  // Starts get(); its end is told by `ended`.
  void begin_get() {
    auto note = [this](std::exception_ptr, Result<std::string> text) { ended = std::move(text); };
    boost::asio::co_spawn(world.io, world.read(wanted), std::move(note));
  }
  void poll() {
    world.io.restart();
    world.io.poll();
  }

  std::optional<Result<std::string>> ended;
  BlobWorld world;
  std::string body;
  BlobRef blob;
  std::vector<BlobRange> wanted;
};

TEST_CASE("reads that are answered take no time, and twenty of them earn an extra one") {
  for (const bool cached : {false, true}) {
    CAPTURE(cached);
    OneStripe stripe(kSmallUnit, 4 * kSmallUnit);
    stripe.world.set_cached(cached);
    HedgeBudget& hedges = stripe.world.blobs->hedges();
    while (hedges.spend(1)) {
    }
    const BootTime before = stripe.world.clock.boot();
    for (int i = 0; i < 10; ++i) REQUIRE(stripe.get().value() == stripe.text());
    CHECK(stripe.world.clock.boot() == before);
    int extra = 0;
    while (hedges.spend(1)) ++extra;
    CHECK(extra == 10 * 4 / 20);
  }
}

TEST_CASE("a late read that cannot be rebuilt is waited for") {
  OneStripe stripe(kSmallUnit, kSmallUnit);
  stripe.at(0).faults.stall_reads = true;
  stripe.fail({1, 2, 3});
  stripe.begin_get();
  stripe.poll();
  stripe.world.clock.advance(milliseconds(20));
  stripe.poll();
  CHECK(stripe.at(1).counters.reads == 1);  // columns were tried
  CHECK_FALSE(stripe.ended.has_value());
  stripe.world.clock.advance(seconds(1));
  stripe.poll();
  CHECK_FALSE(stripe.ended.has_value());
  stripe.at(0).release();
  stripe.poll();
  REQUIRE(stripe.ended.has_value());
  REQUIRE(stripe.ended->has_value());
  CHECK(stripe.ended->value() == stripe.text());
}

TEST_CASE("a suspect volume is read if nothing else helps, and only then") {
  for (const int failing : {0, 1, 2, 3}) {
    CAPTURE(failing);
    OneStripe stripe(kSmallUnit, kSmallUnit);
    stripe.world.membership->report_stalled(stripe.at(0).id());
    if (failing > 0) stripe.fail({3});
    if (failing > 1) stripe.fail({4});
    if (failing > 2) stripe.fail({5});
    const auto text = stripe.get();
    REQUIRE(text.has_value());
    CHECK(*text == stripe.text());
    CHECK(stripe.at(0).counters.reads == (failing < 2 ? 0 : 1));
    CHECK(stripe.suspect(0));  // what is read may come from memory: only a probe clears it
  }
}

TEST_CASE("a slow volume is asked once a second, for no little, and nobody waits for it") {
  for (const std::size_t length : {kSmallUnit, kSmallUnit / 2}) {
    CAPTURE(length);
    OneStripe stripe(kSmallUnit, length);
    Membership& membership = *stripe.world.membership;
    for (int window = 0; window < 3; ++window) {
      for (std::uint32_t unit = 0; unit < 6; ++unit) {
        const milliseconds took(unit == 0 ? 300 : 3);
        membership.report_transfer(stripe.at(unit).id(), 1 << 20, took);
      }
      stripe.world.clock.advance(seconds(1));
      membership.probe_suspects(stripe.world.io.get_executor());
    }
    REQUIRE(membership.slow(stripe.at(0).id()));
    stripe.at(0).faults.stall_reads = true;
    for (const auto& [pause, asked] : {std::pair(0, 0), {1, 1}, {0, 1}, {1, 2}}) {
      stripe.world.clock.advance(seconds(pause));
      const BootTime before = stripe.world.clock.boot();
      CHECK(stripe.get().value() == stripe.text());
      CHECK(stripe.world.clock.boot() == before);
      CHECK(stripe.at(0).counters.reads == (length < kSlowReadBytes ? 0 : asked));
    }
  }
}

TEST_CASE("columns are taken from healthy volumes first, and from suspects if need be") {
  for (const bool needed : {false, true}) {
    CAPTURE(needed);
    OneStripe stripe(kSmallUnit, kSmallUnit);
    stripe.lose(0);
    if (needed) stripe.lose(4);
    stripe.world.membership->report_stalled(stripe.at(1).id());
    const auto text = stripe.get();
    REQUIRE(text.has_value());
    CHECK(*text == stripe.text());
    CHECK(stripe.at(1).counters.reads == (needed ? 1 : 0));
  }
}

TEST_CASE("a fragment that was never written is reported like a lost one") {
  OneStripe stripe(kSmallUnit, kSmallUnit);
  stripe.lose(0);
  CHECK(stripe.get().value() == stripe.text());
  CHECK(stripe.world.damaged == std::vector{std::pair(0u, Errc::not_found)});
}

TEST_CASE("a column that stalls is replaced after 2 s, and its volume not asked again") {
  OneStripe stripe(kLargeUnit, kLargeUnit);  // two pieces
  stripe.lose(0);
  stripe.at(1).faults.stall_reads = true;
  const auto used = stripe.use_most_memory();
  const auto reader = stripe.reader();
  const BootTime before = stripe.world.clock.boot();
  const auto first = stripe.next(*reader);
  REQUIRE(first.has_value());
  CHECK(as_text(first->bytes()) == stripe.text().substr(0, first->length));
  CHECK(stripe.world.clock.boot() - before == seconds(2));
  CHECK(stripe.suspect(1));
  CHECK(stripe.at(1).counters.reads == 1);
  stripe.world.membership->report(stripe.at(1).id(), true);  // it answered somebody else
  const auto second = stripe.next(*reader);
  REQUIRE(second.has_value());
  CHECK(first->length + second->length == kLargeUnit);
  CHECK(as_text(second->bytes()) == stripe.text().substr(first->length));
  CHECK(stripe.world.clock.boot() - before == seconds(2));
  CHECK(stripe.at(1).counters.reads == 1);
}

TEST_CASE("a late column is waited for where all that could replace it failed before") {
  BlobWorld world;
  const std::string body = BlobWorld::body(6 * 4 * kSmallUnit);
  const BlobRef blob = world.put(body).value();
  world.settle();
  const auto fail = [&](std::uint32_t slot) {
    world.slot(blob, slot).faults.fail_reads = true;
    world.slot(blob, slot).faults.read_error = Errc::io;
  };
  // Nothing is read ahead.
  const auto used = world.budget.take(world.budget.limit_bytes() / 4 * 3).value();
  std::vector<BlobRange> ranges(1);
  ranges[0].blob = blob;
  ranges[0].length = (5 * 4 + 1) * kSmallUnit;
  BlobReader reader = world.blobs->read(ranges, false, nullptr);
  fail(0);
  for (int i = 0; i < 5 * 4; ++i) {
    REQUIRE(run_task(world.io, world.clock, reader.next(world.deadline())).has_value());
  }
  fail(1);  // has the last unit that is read; slots 2 ... 5 are the next columns, 0 is the last
  world.slot(blob, 3).faults.stall_reads = true;
  const auto last = std::make_shared<std::optional<Result<Piece>>>();
  auto note = [last](std::exception_ptr, Result<Piece> piece) { last->emplace(std::move(piece)); };
  boost::asio::co_spawn(world.io, reader.next(world.deadline()), std::move(note));
  const auto run_ready_ones = [&] {
    world.io.restart();
    world.io.poll();
  };
  run_ready_ones();
  world.clock.advance(seconds(2));
  run_ready_ones();
  CHECK_FALSE(last->has_value());
  world.slot(blob, 3).release();
  run_ready_ones();
  REQUIRE(last->has_value());
  REQUIRE((*last)->has_value());
  CHECK(world.slot(blob, 0).counters.reads == 1);  // a reader asks once
  CHECK(as_text((*last)->value().bytes()) == body.substr(5 * 4 * kSmallUnit, kSmallUnit));
}

TEST_CASE("a run that was rebuilt from corrupt fragments is not read again") {
  OneStripe stripe(kSmallUnit, kSmallUnit);
  for (const std::uint32_t unit : {0u, 2u}) {
    stripe.at(unit).corrupt(stripe.blob.fragment(unit), unit * limits::kBlockBytes);
  }
  CHECK(stripe.get().value() == stripe.text());
  std::uint64_t bytes = 0;
  for (const auto& volume : stripe.world.volumes) bytes += volume->counters.bytes_read;
  CHECK(bytes == 4 * kSmallUnit);
  CHECK(stripe.world.pieces == 1);
}

TEST_CASE("to rebuild takes memory for k columns and the result; another copy takes none") {
  OneStripe stripe(kSmallUnit, kSmallUnit);
  stripe.lose(0);
  const std::size_t limit = stripe.world.budget.limit_bytes();
  {
    const auto used = stripe.world.budget.take(limit - 6 * kSmallUnit).value();
    CHECK(stripe.get().value() == stripe.text());
  }
  stripe.world.settle();
  {
    const auto used = stripe.world.budget.take(limit - 6 * kSmallUnit + 1).value();
    const auto text = stripe.get();
    REQUIRE(text.has_error());
    CHECK(text.error().code == Errc::overloaded);
  }
  BlobWorldShape shape;
  shape.k = 1;
  BlobWorld copies(shape);
  const std::string body = BlobWorld::body(kSmallUnit);
  BlobRef blob = copies.put(body).value();
  blob.locations[0] = Location{};
  const auto used = copies.budget.take(copies.budget.limit_bytes() - kSmallUnit).value();
  CHECK(copies.get(blob).value() == body);
}

TEST_CASE("a volume is hedged though another one, asked later, has not answered either") {
  BlobWorld world;
  const std::string body = BlobWorld::body(12 * kSmallUnit);
  const BlobRef blob = world.put(body).value();
  std::vector<BlobRange> ranges(1);
  ranges[0].blob = blob;
  ranges[0].length = body.size();
  BlobReader reader = world.blobs->read(ranges, false, nullptr);
  const auto next = [&] { return run_task(world.io, world.clock, reader.next(world.deadline())); };
  world.slot(blob, 5).faults.stall_reads = true;  // has the fifth unit
  const BootTime before = world.clock.boot();
  REQUIRE(next().has_value());
  world.io.restart();
  world.io.poll();
  world.clock.advance(milliseconds(10));
  world.slot(blob, 4).faults.stall_reads = true;  // has the ninth unit, and none before it
  for (int i = 1; i < 4; ++i) REQUIRE(next().has_value());
  const auto piece = next();
  REQUIRE(piece.has_value());
  CHECK(as_text(piece->bytes()) == body.substr(4 * kSmallUnit, kSmallUnit));
  CHECK(world.slot(blob, 4).counters.reads == 1);
  CHECK(world.clock.boot() - before == milliseconds(20));
}

TEST_CASE("eight pieces are fetched ahead, one while more than half the memory is used") {
  for (const bool scarce : {false, true}) {
    CAPTURE(scarce);
    OneStripe stripe(kLargeUnit, 4 * kLargeUnit);
    std::optional<MemoryBudget::Lease> used;
    if (scarce) used = stripe.use_most_memory();
    const std::size_t others = stripe.world.budget.used_bytes();
    for (auto& volume : stripe.world.volumes) volume->faults.stall_reads = true;
    stripe.begin_get();
    stripe.poll();
    int reads = 0;
    for (auto& volume : stripe.world.volumes) reads += volume->counters.reads;
    CHECK(reads == (scarce ? 1 : 8));
    CHECK(stripe.world.budget.used_bytes() - others == (scarce ? 1 : 8) * limits::kPieceBytes);
    for (auto& volume : stripe.world.volumes) {
      volume->faults.stall_reads = false;
      volume->release();
    }
    run_until(stripe.world.io, stripe.world.clock, [&] { return stripe.ended.has_value(); });
    REQUIRE(stripe.ended.has_value());
    CHECK(stripe.ended->value() == stripe.body);
  }
}

}  // namespace
}  // namespace penstock
