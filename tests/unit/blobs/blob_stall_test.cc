// Uploads while several volumes stall at once.
#include <boost/asio/detached.hpp>

#include "server/blobs/blob_writer.h"
#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

using std::chrono::seconds;

constexpr std::size_t kStripe = 4 * (64 << 10);  // of the default world

using Ended = std::shared_ptr<std::optional<Result<BlobRef>>>;
Ended begin(BlobWorld& world, std::size_t stripes = 1) {
  auto ended = std::make_shared<std::optional<Result<BlobRef>>>();
  boost::asio::co_spawn(world.io, world.write(BlobWorld::body(stripes * kStripe)),
                        [ended](std::exception_ptr, Result<BlobRef> blob) { *ended = blob; });
  return ended;
}

void pass(BlobWorld& world, Duration time) {
  const BootTime until = world.clock.boot() + time;
  boost::asio::co_spawn(world.io, world.clock.sleep_until(until), boost::asio::detached);
  run_until(world.io, world.clock, [&] { return world.clock.boot() >= until; });
}

// All that stalls goes on: nothing is missing then.
void release_all(BlobWorld& world, const Ended& ended) {
  for (auto& volume : world.volumes) volume->release();
  run_until(world.io, world.clock, [&] { return ended->has_value(); });
  REQUIRE((*ended)->has_value());
  CHECK(BlobWorld::zero_locations(ended->value().value()) == 0);
}

TEST_CASE(
    "two hanging volumes of 4+2 are one too many, when they hang for longer than disks stall") {
  for (const bool comes_back : {false, true}) {
    CAPTURE(comes_back);
    BlobWorld world;
    world.volumes[1]->faults.stall_commit = true;
    world.volumes[2]->faults.stall_commit = true;
    const BootTime before = world.clock.boot();
    const Ended ended = begin(world);
    pass(world, seconds(4));
    REQUIRE_FALSE(ended->has_value());
    for (const int late : {1, 2}) CHECK(world.membership->suspect(VolumeId{100u + late}));
    if (comes_back) world.volumes[1]->release();
    run_until(world.io, world.clock, [&] { return ended->has_value(); });
    CHECK((*ended)->has_value() == comes_back);
    if (comes_back) {
      CHECK(BlobWorld::zero_locations(ended->value().value()) == 1);
    } else {
      CHECK((*ended)->error().code == Errc::unavailable);
      CHECK(world.clock.boot() - before == seconds(5));
    }
  }
}

TEST_CASE("what a volume takes and does not write is no progress") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {  // other slots hang
    CAPTURE(seed);
    BlobWorld world({}, seed);
    const BootTime before = world.clock.boot();
    for (const int late : {1, 2}) {
      world.volumes[late]->faults.keep_pieces = true;  // it answers first
      world.volumes[late]->faults.stall_append = 1;
    }
    const Ended ended = begin(world, 16);
    for (const int late : {1, 2}) {  // the second one hangs from a moment later on
      pass(world, std::chrono::milliseconds(10));
      world.volumes[late]->release();
    }
    run_until(world.io, world.clock, [&] { return ended->has_value(); });
    CHECK((*ended)->error().code == Errc::unavailable);
    CHECK(world.clock.boot() - before <= seconds(5) + std::chrono::milliseconds(20));
    for (const int late : {1, 2}) world.volumes[late]->kept.clear();
  }
}

TEST_CASE("when this process stood still nobody is blamed, whoever answers first afterwards") {
  BlobWorld world;
  for (auto& volume : world.volumes) volume->faults.stall_commit = true;
  const Ended ended = begin(world);
  pass(world, std::chrono::milliseconds(100));
  world.clock.advance(seconds(6));  // no timer rings meanwhile
  world.volumes[3]->release();
  pass(world, std::chrono::milliseconds(100));
  REQUIRE_FALSE(ended->has_value());
  for (auto& volume : world.volumes) {
    CHECK_FALSE(world.membership->suspect(volume->id()));
    volume->release();
  }
  run_until(world.io, world.clock, [&] { return ended->has_value(); });
  REQUIRE((*ended)->has_value());
  CHECK(BlobWorld::zero_locations(ended->value().value()) == 0);
}

TEST_CASE("a piece that was in a stall while a slow client sent nothing has its time, too") {
  for (std::size_t number = 0; number < 6; ++number) {  // three of them got pieces before
    CAPTURE(number);
    BlobWorld world;
    FakeHolder& late = *world.volumes[number];
    late.faults.keep_pieces = late.faults.stall_commit = true;
    const auto slow = [&world](std::size_t at) {
      if (at == 3 * kStripe / 4) world.clock.advance(seconds(3));
    };
    auto ended = std::make_shared<std::optional<Result<BlobRef>>>();
    boost::asio::co_spawn(world.io, world.write(BlobWorld::body(kStripe), 64 << 10, slow),
                          [ended](std::exception_ptr, Result<BlobRef> blob) { *ended = blob; });
    pass(world, std::chrono::milliseconds(100));
    REQUIRE_FALSE(ended->has_value());
    late.kept.clear();
    late.release();
    run_until(world.io, world.clock, [&] { return ended->has_value(); });
    REQUIRE((*ended)->has_value());
    CHECK(BlobWorld::zero_locations(ended->value().value()) == 0);
  }
}

TEST_CASE("a stall of three seconds takes nothing from an upload, if all but one volume have it") {
  BlobWorld world;
  for (std::size_t i = 1; i < 6; ++i) world.volumes[i]->faults.stall_commit = true;
  const Ended ended = begin(world);
  pass(world, seconds(3));
  REQUIRE_FALSE(ended->has_value());
  for (auto& volume : world.volumes) {  // one after the other, as threads wake
    volume->release();
    pass(world, std::chrono::milliseconds(300));
  }
  run_until(world.io, world.clock, [&] { return ended->has_value(); });
  REQUIRE((*ended)->has_value());
  CHECK(BlobWorld::zero_locations(ended->value().value()) == 0);
}

TEST_CASE("a stall of all volumes is one, also if their steps began a moment apart") {
  BlobWorld world;
  for (auto& volume : world.volumes) {
    volume->faults.stall_append = 1;
    volume->faults.stall_commit = true;
  }
  const Ended ended = begin(world);
  for (auto& volume : world.volumes) {
    pass(world, std::chrono::milliseconds(80));
    volume->release();  // the append; the commit begins
  }
  pass(world, seconds(3));
  REQUIRE_FALSE(ended->has_value());
  release_all(world, ended);
}

TEST_CASE("a stall of three seconds fails no read, however many volumes have it") {
  for (const std::size_t stalled : {3, 4, 6}) {
    CAPTURE(stalled);
    BlobWorld world;
    const std::string body = BlobWorld::body(3 * kStripe);
    const auto blob = world.put(body);
    REQUIRE(blob);
    for (std::size_t i = 0; i < stalled; ++i) world.volumes[i]->faults.stall_reads = true;
    std::vector<BlobRange> ranges(1);
    ranges[0].blob = *blob;
    ranges[0].length = body.size();
    auto ended = std::make_shared<std::optional<Result<std::string>>>();
    boost::asio::co_spawn(
        world.io, world.read(std::move(ranges)),
        [ended](std::exception_ptr, Result<std::string> text) { *ended = std::move(text); });
    pass(world, seconds(3));
    REQUIRE_FALSE(ended->has_value());
    for (auto& volume : world.volumes) {
      volume->faults.stall_reads = false;
      volume->release();
    }
    run_until(world.io, world.clock, [&] { return ended->has_value(); });
    REQUIRE((*ended)->has_value());
    CHECK((*ended)->value() == body);
  }
}

TEST_CASE("an upload that begins while all volumes are suspect waits for them") {
  BlobWorld world;
  for (auto& volume : world.volumes) {
    world.membership->report_stalled(volume->id());
    volume->faults.stall_commit = true;
  }
  CHECK(world.blobs->could_write(kStripe));
  const Ended ended = begin(world);
  pass(world, seconds(3));
  REQUIRE_FALSE(ended->has_value());
  release_all(world, ended);
  world.volumes[0]->faults.state = VolumeStatus::State::closed;  // no suspect, but away
  for (std::size_t i = 0; i < 6; ++i) {
    world.membership->report_stalled(world.volumes[i]->id());
    if (i > 0) world.volumes[i]->faults.full = true;
  }
  CHECK(world.blobs->could_write(kStripe).error().code == Errc::full);
}

TEST_CASE("when all volumes are late nobody is blamed") {
  BlobWorld world;
  for (auto& volume : world.volumes) volume->faults.stall_commit = true;
  const Ended ended = begin(world);
  pass(world, seconds(3));
  CHECK_FALSE(ended->has_value());
  release_all(world, ended);
  for (auto& volume : world.volumes) CHECK_FALSE(world.membership->suspect(volume->id()));
}

TEST_CASE("volumes that reach the end of a commit together are not blamed either") {
  BlobWorld world;
  for (auto& volume : world.volumes) volume->faults.stall_commit = true;
  const Ended ended = begin(world);
  pass(world, seconds(31));
  for (auto& volume : world.volumes) volume->release(fail(Errc::timeout, "no answer in time"));
  run_until(world.io, world.clock, [&] { return ended->has_value(); });
  REQUIRE(ended->has_value());
  CHECK_FALSE((*ended)->has_value());
  for (auto& volume : world.volumes) CHECK_FALSE(world.membership->suspect(volume->id()));
}

}  // namespace
}  // namespace penstock
