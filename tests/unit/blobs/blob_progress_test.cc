// What an upload holds of its volumes and its memory, and for how long: while volumes lag, after it
// was given up, and after a volume was dropped.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <set>

#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kStripeBytes = 4 * (64 << 10);  // of the default world

void run_ready(BlobWorld& world) {
  world.io.restart();
  world.io.poll();
}
// Opens an upload of `announced` bytes and sends the first `count` of them.
void send_some(BlobWorld& world, std::size_t announced, std::size_t count) {
  world.writer =
      run_task(world.io, world.clock, world.blobs->write(world.owner, announced, world.deadline()))
          .value();
  while (count > 0) {
    const Buffer space = run_task(world.io, world.clock, world.writer->space()).value();
    const std::size_t step = std::min(space.size(), count);
    std::memset(space.data(), 'x', step);
    REQUIRE(run_task(world.io, world.clock, world.writer->filled(step)).has_value());
    count -= step;
  }
  run_ready(world);
}
// An upload under way.
struct UploadUnderWay {
  UploadUnderWay(BlobWorld& world, std::string body) {
    auto note = [told = told](std::exception_ptr, Result<BlobRef> blob) { *told = blob; };
    boost::asio::co_spawn(world.io, world.write(std::move(body), 1 << 20), std::move(note));
    run_ready(world);
  }
  bool ended() const { return told->has_value(); }
  const Result<BlobRef>& blob() const { return **told; }
  std::shared_ptr<std::optional<Result<BlobRef>>> told =
      std::make_shared<std::optional<Result<BlobRef>>>();
};

TEST_CASE("the writers of an upload that is given up close at once, those in a call after it") {
  BlobWorld world;
  for (const std::size_t slow : {1, 2}) world.volumes[slow]->faults.stall_append = 1;
  // Long enough that the writer has room for the pieces of both.
  send_some(world, 12 * kStripeBytes, 2 * kStripeBytes);
  for (auto& volume : world.volumes) REQUIRE(volume->counters.writers_open == 1);
  world.writer.reset();
  run_ready(world);
  const auto open = [&] {
    std::vector<int> counts;
    for (auto& volume : world.volumes) counts.push_back(volume->counters.writers_open);
    return counts;
  };
  CHECK(open() == std::vector{0, 1, 1, 0, 0, 0});
  const int appends = world.volumes[1]->counters.appends;
  world.volumes[1]->release();
  run_ready(world);
  CHECK(open() == std::vector{0, 0, 1, 0, 0, 0});
  CHECK(world.volumes[1]->counters.appends == appends);  // nothing more is sent
  world.settle();
  CHECK(open() == std::vector(6, 0));
  CHECK(world.fragments() == 0);
  CHECK(world.budget.used_bytes() == 0);
}

TEST_CASE("an upload's memory counts until a volume that was dropped gives it back") {
  BlobWorld world;
  world.volumes[1]->faults.stall_append = 1;
  const auto blob = world.put(BlobWorld::body(kStripeBytes));
  REQUIRE(blob.has_value());
  CHECK(BlobWorld::zero_locations(*blob) == 1);
  CHECK(world.budget.used_bytes() > 0);
  world.volumes[1]->release();
  run_ready(world);
  CHECK(world.budget.used_bytes() == 0);
}

TEST_CASE("a volume that was dropped gets nothing more and holds nothing up") {
  BlobWorld world;
  world.volumes[1]->faults.stall_append = 1;
  const std::string body = BlobWorld::body(40 * kStripeBytes);
  const BootTime before = world.clock.boot();
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  CHECK(BlobWorld::zero_locations(*blob) == 1);
  CHECK(world.clock.boot() - before == seconds(2));
  CHECK(world.volumes[1]->counters.appends == 1);
  CHECK((world.get(*blob).value() == body));
}

TEST_CASE("a second volume that stalls is dropped as well, 2 s after it began") {
  BlobWorldShape shape;
  shape.volumes = 7;
  shape.m = 3;
  BlobWorld world(shape);
  world.volumes[1]->faults.stall_append = 1;
  world.volumes[2]->faults.stall_append = 30;
  const std::string body = BlobWorld::body(40 * kStripeBytes);
  const BootTime before = world.clock.boot();
  const UploadUnderWay upload(world, body);
  run_until(world.io, world.clock, [&] { return upload.ended(); });
  REQUIRE(upload.ended());
  REQUIRE(upload.blob().has_value());
  CHECK(BlobWorld::zero_locations(*upload.blob()) == 2);
  CHECK(world.clock.boot() - before == seconds(4));
  CHECK((world.get(*upload.blob()).value() == body));
}

TEST_CASE("a volume that refuses two uploads in a row is suspect") {
  BlobWorld world;
  FakeHolder& broken = *world.volumes[0];
  broken.faults.fail_open = true;
  for (const bool suspected : {false, true}) {
    REQUIRE(world.put(BlobWorld::body(1000)).has_value());
    CHECK(world.membership->suspect(broken.id()) == suspected);
  }
}

TEST_CASE("a writer that waits for a slow volume goes on when that has written its pieces") {
  BlobWorldShape shape;
  shape.unit_bytes = 2 << 20;
  BlobWorld world(shape);
  FakeHolder& slow = *world.volumes[2];
  slow.faults.keep_pieces = true;
  const BootTime before = world.clock.boot();
  UploadUnderWay upload(world, BlobWorld::body(40 << 20));
  REQUIRE_FALSE(upload.ended());
  slow.faults.keep_pieces = false;
  slow.kept.clear();
  run_ready(world);
  REQUIRE(upload.ended());
  REQUIRE(upload.blob().has_value());
  CHECK(BlobWorld::zero_locations(*upload.blob()) == 0);
  CHECK(world.clock.boot() == before);
}

TEST_CASE("a volume that stalls after the others have ended is dropped 2 s after its last step") {
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    BlobWorld world;
    FakeHolder& slow = *world.volumes[i];
    slow.faults.stall_append = 1;
    const BootTime before = world.clock.boot();
    UploadUnderWay upload(world, BlobWorld::body(2 * kStripeBytes));
    world.clock.advance(milliseconds(1500));
    slow.faults.stall_append = 1;
    slow.release();
    run_ready(world);
    run_until(world.io, world.clock, [&] { return upload.ended(); });
    REQUIRE(upload.ended());
    REQUIRE(upload.blob().has_value());
    CHECK(BlobWorld::zero_locations(*upload.blob()) == 1);
    CHECK(world.clock.boot() - before == milliseconds(3500));
  }
}

TEST_CASE("what was discarded is not committed later") {
  BlobWorld world;
  world.volumes[1]->faults.stall_append = 1;
  send_some(world, kStripeBytes, kStripeBytes);
  const Deadline soon = world.clock.boot() + seconds(1);
  REQUIRE(run_task(world.io, world.clock, world.writer->commit(soon)).has_error());
  CHECK(world.fragments() == 5);
  boost::asio::co_spawn(world.io, world.writer->discard(), boost::asio::detached);
  run_ready(world);
  CHECK(world.fragments() == 0);
  world.volumes[1]->release();
  run_ready(world);
  CHECK(world.fragments() == 0);
}

TEST_CASE("to discard or to pin what volumes hold takes no longer than their answers") {
  bool ended = false;
  BlobWorld world;
  const auto blob =
      run_task(world.io, world.clock, world.write(BlobWorld::body(kStripeBytes))).value();
  world.clock.advance(hours(13));
  const BootTime before = world.clock.boot();
  const auto missing =
      run_task(world.io, world.clock, world.writer->ensure_leases(blob, world.deadline()));
  CHECK(missing.value().empty());
  CHECK(world.clock.boot() == before);
  boost::asio::co_spawn(world.io, world.writer->discard(),
                        [&](std::exception_ptr) { ended = true; });
  run_ready(world);
  CHECK(ended);
  CHECK(world.fragments() == 0);
}

TEST_CASE("each fragment of a blob has a generation of its own") {
  BlobWorld world;
  std::set<Generation> generations;
  for (int i = 0; i < 2; ++i) {
    const auto blob = world.put(BlobWorld::body(kStripeBytes)).value();
    for (const Location& location : blob.locations) generations.insert(location.generation);
  }
  CHECK(generations.size() == 12);
}

TEST_CASE("volumes that are closed are away, though they were full before") {
  BlobWorld world;
  for (auto& volume : world.volumes) {
    volume->faults.full = true;
    volume->faults.state = VolumeStatus::State::closed;
  }
  CHECK(world.put("x").error().code == Errc::unavailable);
}

}  // namespace
}  // namespace penstock
