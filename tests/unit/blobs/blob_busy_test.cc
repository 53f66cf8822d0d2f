// Volumes that answer `overloaded`, and a process that is short of memory, while all are well.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/fake/code_of.h"
#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kUnit = 64 << 10;
constexpr std::size_t kLargeUnit = 2 << 20;

void make_busy(FakeHolder& volume, bool busy) {
  volume.faults.fail_reads = volume.faults.fail_open = busy;
  volume.faults.read_error = volume.faults.open_error = Errc::overloaded;
}

// From now on, until this time is over.
void make_busy_for(BlobWorld& world, std::vector<FakeHolder*> volumes, Duration time) {
  auto end = [](Clock& clock, std::vector<FakeHolder*> all, BootTime when) -> Awaitable<void> {
    co_await clock.sleep_until(when);
    for (FakeHolder* volume : all) make_busy(*volume, false);
  };
  for (FakeHolder* volume : volumes) make_busy(*volume, true);
  boost::asio::co_spawn(world.io, end(world.clock, volumes, world.clock.boot() + time),
                        boost::asio::detached);
}

std::vector<FakeHolder*> all_of(BlobWorld& world) {
  std::vector<FakeHolder*> all;
  for (const auto& volume : world.volumes) all.push_back(volume.get());
  return all;
}

TEST_CASE("a volume with too much to do is asked again, and nobody in its place") {
  for (const bool cached : {false, true}) {
    CAPTURE(cached);
    BlobWorld world;
    const std::string body = BlobWorld::body(4 * kUnit);
    const BlobRef blob = world.put(body).value();
    world.set_cached(cached);
    make_busy_for(world, {&world.slot(blob, 0)}, milliseconds(10));
    const BootTime before = world.clock.boot();
    CHECK(world.get(blob, 0, kUnit).value() == body.substr(0, kUnit));
    CHECK(world.clock.boot() - before <= milliseconds(24));
    for (std::uint32_t slot = 1; slot < 6; ++slot) {
      const auto& counters = world.slot(blob, slot).counters;
      CHECK(counters.reads + counters.reads_now == 0);
    }
    CHECK_FALSE(world.membership->suspect(blob.locations[0].volume));
  }
}

TEST_CASE("one that stays busy is left out after a while, and is no suspect") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  const BlobRef blob = world.put(body).value();
  while (world.blobs->hedges().spend(1)) {
  }
  make_busy(world.slot(blob, 0), true);
  const BootTime before = world.clock.boot();
  CHECK(world.get(blob, 0, kUnit).value() == body.substr(0, kUnit));
  CHECK(world.clock.boot() - before <= seconds(1));
  CHECK_FALSE(world.membership->suspect(blob.locations[0].volume));
}

TEST_CASE("while all volumes are busy a read waits, and fails in its own time only") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  const BlobRef blob = world.put(body).value();
  make_busy_for(world, all_of(world), seconds(7));
  CHECK(world.get(blob).value() == body);
  for (FakeHolder* volume : all_of(world)) make_busy(*volume, true);
  const BootTime before = world.clock.boot();
  CHECK(code_of(world.get(blob)) == Errc::timeout);
  CHECK(world.clock.boot() - before == seconds(30));
}

TEST_CASE("a volume that is busy for a moment when an upload begins has its fragment") {
  BlobWorld world;
  make_busy_for(world, {world.volumes[2].get(), world.volumes[3].get()}, milliseconds(150));
  const std::string body = BlobWorld::body(4 * kUnit);
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  CHECK(blob->shape.k == 4);
  CHECK(BlobWorld::zero_locations(*blob) == 0);
}

TEST_CASE("bytes are rebuilt in small pieces where there is no memory for large ones") {
  BlobWorldShape shape;
  shape.unit_bytes = kLargeUnit;
  BlobWorld world(shape);
  const std::string body = BlobWorld::body(4 * kLargeUnit);
  BlobRef blob = world.put(body, 1 << 20).value();
  world.settle();
  blob.locations[0] = Location{};
  const auto used = world.budget.take(world.budget.limit_bytes() - (3 << 19)).value();
  const BootTime before = world.clock.boot();
  CHECK((world.get(blob, 0, 2 * kLargeUnit).value() == body.substr(0, 2 * kLargeUnit)));
  CHECK(world.clock.boot() == before);
  CHECK(world.damaged == std::vector{std::pair(0u, Errc::not_found)});
}

TEST_CASE("once bytes are out, a rebuild waits for memory as long as the reader does") {
  BlobWorld world;
  const std::string body = BlobWorld::body(4 * kUnit);
  BlobRef blob = world.put(body).value();
  world.settle();
  blob.locations[1] = Location{};
  std::vector<BlobRange> ranges(1);
  ranges[0].blob = blob;
  ranges[0].length = body.size();
  BlobReader reader = world.blobs->read(ranges, false, nullptr);
  const std::size_t left = 2 * kUnit;
  auto used = world.budget.take(world.budget.limit_bytes() - left).value();
  REQUIRE(run_task(world.io, world.clock, reader.next(world.deadline())).value().length == kUnit);
  auto give = [](Clock& clock, MemoryBudget::Lease& lease) -> Awaitable<void> {
    co_await clock.sleep_until(clock.boot() + seconds(10));
    lease = MemoryBudget::Lease{};
  };
  boost::asio::co_spawn(world.io, give(world.clock, used), boost::asio::detached);
  const auto piece = run_task(world.io, world.clock, reader.next(world.deadline()));
  REQUIRE(piece.has_value());
  CHECK(as_text(piece->bytes()) == body.substr(kUnit, kUnit));
}

}  // namespace
}  // namespace penstock
