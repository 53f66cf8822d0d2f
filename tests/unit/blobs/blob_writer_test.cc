#include "server/blobs/blob_writer.h"

#include <boost/asio/detached.hpp>

#include "server/blobs/blob_shape.h"
#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr std::size_t kStripe = 4 * (64 << 10);  // of the default world

TEST_CASE("the layout of a new blob follows the volumes that can take it") {
  struct Row {
    std::uint32_t k, m;
    std::size_t available;
    std::uint32_t want_k, want_m;  // 0 = refused
  };
  const Row rows[] = {{4, 2, 6, 4, 2},  {4, 2, 5, 3, 2},  {4, 2, 4, 2, 2}, {4, 2, 3, 1, 2},
                      {4, 2, 2, 1, 1},  {4, 2, 1, 0, 0},  {4, 2, 0, 0, 0}, {4, 2, 50, 4, 2},
                      {8, 3, 11, 8, 3}, {8, 3, 10, 7, 3}, {8, 3, 4, 1, 3}, {8, 3, 3, 1, 2},
                      {2, 2, 5, 2, 2},  {2, 2, 3, 1, 2},  {1, 2, 4, 1, 2}, {1, 2, 3, 1, 2},
                      {1, 2, 2, 1, 1},  {1, 2, 1, 0, 0},  {1, 0, 1, 1, 0}, {1, 0, 0, 0, 0}};
  for (const Row& row : rows) {
    LayoutPolicy policy;
    policy.k = row.k;
    policy.m = row.m;
    const auto shape = choose_shape(policy, 10 << 20, false, row.available);
    CAPTURE(row.k);
    CAPTURE(row.available);
    REQUIRE(shape.has_value() == (row.want_k > 0));
    if (shape) CHECK(std::pair(shape->k, shape->m) == std::pair(row.want_k, row.want_m));
  }
  LayoutPolicy policy;
  CHECK(choose_shape(policy, 128 << 10, false, 6)->k == 1);
  CHECK(choose_shape(policy, 128 << 10, false, 6)->m == 2);
  CHECK(choose_shape(policy, (128 << 10) + 1, false, 6)->k == 4);
  CHECK(choose_shape(policy, 10 << 20, true, 6)->k == 1);
  CHECK(choose_shape(policy, 10 << 20, true, 2)->m == 1);
}

TEST_CASE("a committed blob has one fragment on each of k+m volumes") {
  BlobWorld world;
  const auto blob = world.put(BlobWorld::body(3 * kStripe + 12'345));
  REQUIRE(blob.has_value());
  CHECK(blob->shape.k == 4);
  CHECK(blob->shape.m == 2);
  const auto layout = Layout::make(blob->shape).value();
  std::set<VolumeId> used;
  for (std::uint32_t slot = 0; slot < 6; ++slot) {
    used.insert(blob->locations[slot].volume);
    REQUIRE(world.slot(*blob, slot).holds(blob->fragment(slot)));
    CHECK(world.slot(*blob, slot).fragment_bytes(blob->fragment(slot)) ==
          layout.fragment_bytes(slot));
  }
  CHECK(used.size() == 6);
  CHECK(world.get(*blob).value() == BlobWorld::body(3 * kStripe + 12'345));
}

TEST_CASE("a host holds at most m fragments of a blob") {
  BlobWorldShape shape;
  shape.volumes = 12;
  shape.hosts = 3;
  BlobWorld world(shape);
  for (int i = 0; i < 20; ++i) {
    const auto blob = world.put(BlobWorld::body(1000));
    REQUIRE(blob.has_value());
    REQUIRE(blob->locations.size() == 6);
    std::map<std::string, int> per_host;
    for (const Location& location : blob->locations) {
      ++per_host[world.membership->map()->find(location.volume)->host];
    }
    for (const auto& [host, count] : per_host) CHECK(count == 2);
  }
}

TEST_CASE("the size of the steps in which bytes arrive does not matter") {
  const std::string body = BlobWorld::body(2 * kStripe + 70'001);
  for (const std::size_t step : {1ul << 20, 65'536ul, 16'384ul, 10'007ul, 777ul}) {
    BlobWorld world;
    const auto blob = world.put(body, step);
    REQUIRE(blob.has_value());
    world.slot(*blob, 0).lose_all();
    world.slot(*blob, 3).lose_all();
    CHECK(world.get(*blob).value() == body);
  }
}

TEST_CASE("small blobs are replicated, and so are those that ask for it") {
  BlobWorldShape shape;
  shape.replicated_bytes_max = 128 << 10;
  BlobWorld world(shape);
  const auto small = world.put(BlobWorld::body(5000));
  REQUIRE(small.has_value());
  CHECK(small->shape.slots() == 3);
  CHECK(small->shape.k == 1);
  const std::string body = BlobWorld::body(900'000);
  const auto large = run_task(world.io, world.clock, world.write(body, 100'000, nullptr, true));
  REQUIRE(large.has_value());
  CHECK(large->shape.k == 1);
  for (std::uint32_t keep = 0; keep < 3; ++keep) {
    BlobRef one = *large;
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      if (slot != keep) one.locations[slot] = Location{};
    }
    CHECK(world.get(one).value() == body);
  }
}

TEST_CASE("volumes that fail before the first byte are replaced or the layout shrinks") {
  struct Row {
    std::uint32_t volumes;
    int failing;
    std::uint32_t k, m;  // 0 = refused
  };
  const Row rows[] = {{8, 2, 4, 2}, {7, 1, 4, 2}, {6, 1, 3, 2}, {6, 2, 2, 2},
                      {6, 3, 1, 2}, {6, 4, 1, 1}, {6, 5, 0, 0}, {6, 6, 0, 0}};
  for (const Row& row : rows) {
    for (const bool stall : {false, true}) {
      if (stall && row.failing == 6) continue;  // all late: see below
      CAPTURE(row.volumes);
      CAPTURE(row.failing);
      CAPTURE(stall);
      BlobWorldShape shape;
      shape.volumes = row.volumes;
      BlobWorld world(shape);
      for (int i = 0; i < row.failing; ++i) {
        world.volumes[static_cast<std::size_t>(i)]->faults.fail_open = !stall;
        world.volumes[static_cast<std::size_t>(i)]->faults.stall_open = stall;
      }
      const std::string body = BlobWorld::body(kStripe * 2 + 1);
      const auto blob = world.put(body);
      if (row.k == 0) {
        REQUIRE(blob.has_error());
        CHECK(blob.error().code == Errc::unavailable);
      } else {
        REQUIRE(blob.has_value());
        CHECK(std::pair(blob->shape.k, blob->shape.m) == std::pair(row.k, row.m));
        CHECK(BlobWorld::zero_locations(*blob) == 0);
        CHECK(world.fragments() == row.k + row.m);
        CHECK(world.get(*blob).value() == body);
      }
      world.settle();
      CHECK(world.budget.used_bytes() == 0);
    }
  }
}

TEST_CASE("volumes known to be away take no fragments") {
  BlobWorld world;
  world.volumes[0]->faults.state = VolumeStatus::State::missing;
  world.volumes[1]->faults.full = true;
  const auto blob = world.put(BlobWorld::body(kStripe));
  REQUIRE(blob.has_value());
  CHECK(blob->shape.k == 2);
  CHECK(world.volumes[0]->fragment_count() + world.volumes[1]->fragment_count() == 0);
}

TEST_CASE("a volume that is full or busy is not suspected, and one that commits is not any more") {
  BlobWorld world;
  FakeHolder& first = *world.volumes[0];
  first.faults.fail_open = true;
  for (const Errc busy : {Errc::full, Errc::overloaded}) {
    first.faults.open_error = busy;
    for (int i = 0; i < 3; ++i) REQUIRE(world.put(BlobWorld::body(1000)).has_value());
    CHECK_FALSE(world.membership->suspect(first.id()));
  }
  first.faults.fail_open = false;
  world.membership->report_fragment(first.id(), false);
  REQUIRE(world.put(BlobWorld::body(1000)).has_value());
  world.membership->report_fragment(first.id(), false);  // no second failure in a row
  CHECK_FALSE(world.membership->suspect(first.id()));
}

TEST_CASE("all volumes full is told apart from volumes away") {
  BlobWorld world;
  for (auto& volume : world.volumes) volume->faults.full = true;
  CHECK(world.put("x").error().code == Errc::full);
  for (auto& volume : world.volumes) volume->faults.reason = "its server stops";
  CHECK(world.put("x").error().code == Errc::unavailable);  // soon away, not without room
  for (auto& volume : world.volumes) volume->faults.full = false;
  for (auto& volume : world.volumes) volume->faults.state = VolumeStatus::State::closed;
  CHECK(world.put("x").error().code == Errc::unavailable);
}

TEST_CASE("a volume that fails during the upload is left out, down to k+1 fragments") {
  const std::string body = BlobWorld::body(6 * kStripe + 99'999);
  for (const int failing : {1, 2}) {
    for (const int nth : {1, 2, 5}) {
      CAPTURE(failing);
      CAPTURE(nth);
      BlobWorld world;
      for (int i = 0; i < failing; ++i) {
        world.volumes[static_cast<std::size_t>(i * 3)]->faults.fail_append = nth;
      }
      const auto blob = world.put(body);
      if (failing == 1) {
        REQUIRE(blob.has_value());
        CHECK(blob->shape.k == 4);
        CHECK(BlobWorld::zero_locations(*blob) == 1);
        CHECK(world.get(*blob).value() == body);
      } else {
        REQUIRE(blob.has_error());
        CHECK(blob.error().code == Errc::unavailable);
      }
      world.settle();
      CHECK(world.budget.used_bytes() == 0);
      for (auto& volume : world.volumes) CHECK(volume->counters.writers_open == 0);
      if (failing == 2) CHECK(world.fragments() == 0);
    }
  }
}

TEST_CASE("a failed or hanging sync leaves the fragment out") {
  const std::string body = BlobWorld::body(kStripe + 5);
  for (const bool stall : {false, true}) {
    BlobWorld world;
    world.volumes[2]->faults.fail_commit = !stall;
    world.volumes[2]->faults.stall_commit = stall;
    const BootTime before = world.clock.boot();
    const auto blob = world.put(body);
    REQUIRE(blob.has_value());
    CHECK(BlobWorld::zero_locations(*blob) == 1);
    CHECK(world.clock.boot() - before == (stall ? seconds(2) : seconds(0)));
    CHECK(world.membership->suspect(VolumeId{102}) == stall);
    CHECK(world.get(*blob).value() == body);
    world.volumes[4]->faults.fail_commit = true;
    world.volumes[5]->faults.fail_commit = true;
    if (!stall) CHECK(world.put(body).error().code == Errc::unavailable);
  }
}

TEST_CASE("a volume without progress for two seconds is dropped and the upload goes on") {
  const std::string body = BlobWorld::body(12 * kStripe);
  BlobWorld world;
  world.volumes[1]->faults.stall_append = 3;
  const BootTime before = world.clock.boot();
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  CHECK(BlobWorld::zero_locations(*blob) == 1);
  CHECK(world.clock.boot() - before == seconds(2));
  CHECK(world.membership->suspect(VolumeId{101}));
  CHECK(world.get(*blob).value() == body);
}

TEST_CASE("pieces count until their memory is free, and a volume that keeps them is dropped") {
  BlobWorldShape shape;
  shape.unit_bytes = 2 << 20;
  BlobWorld world(shape);
  const std::string body = BlobWorld::body(80 << 20);
  FakeHolder& slow = *world.volumes[2];
  slow.faults.keep_pieces = true;
  const auto blob = world.put(body);
  REQUIRE(blob.has_value());
  CHECK(BlobWorld::zero_locations(*blob) == 1);
  CHECK(slow.kept.size() >= 2);
  CHECK(slow.kept.size() <= 8);  // four of data, two stripes of parity, then the writer waits
  slow.kept.clear();
  CHECK((world.get(*blob).value() == body));
}

TEST_CASE("an upload that has memory for all of its bytes waits for no piece to be written") {
  struct Row {
    std::uint32_t volumes, k;
    std::uint64_t unit;
    std::size_t bytes;
  };
  for (const Row& row : {Row{6, 4, 2 << 20, 2 << 20}, Row{6, 4, limits::kPieceBytes, 3 << 20},
                         Row{5, 2, limits::kPieceBytes, 7 * limits::kPieceBytes}}) {
    CAPTURE(row.bytes);
    BlobWorldShape shape;
    shape.volumes = row.volumes;
    shape.k = row.k;
    shape.unit_bytes = row.unit;
    BlobWorld world(shape);
    for (auto& volume : world.volumes) volume->faults.keep_pieces = true;
    const BootTime before = world.clock.boot();
    const auto blob = world.put(BlobWorld::body(row.bytes));
    REQUIRE(blob);
    CHECK(BlobWorld::zero_locations(*blob) == 0);
    CHECK(world.clock.boot() == before);
    for (auto& volume : world.volumes) volume->kept.clear();
  }
}

TEST_CASE("no more is under way than memory was taken for") {
  for (const bool alone : {true, false}) {
    CAPTURE(alone);
    BlobWorldShape shape;
    shape.unit_bytes = limits::kPieceBytes;
    BlobWorld world(shape);
    MemoryBudget::Lease others;
    if (!alone) others = world.budget.take(world.budget.limit_bytes() / 8).value();
    for (auto& volume : world.volumes) volume->faults.keep_pieces = true;
    const auto sum = [&] {
      std::size_t bytes = 0;
      for (auto& volume : world.volumes) {
        for (const Buffer& piece : volume->kept) bytes += piece.size();
      }
      return bytes;
    };
    std::size_t most = 0;
    const auto look = [&](std::size_t) { most = std::max(most, sum()); };
    CHECK(world.put(BlobWorld::body(16 << 20), 1 << 20, look).has_error());  // nothing is written
    most = std::max(most, sum());
    CHECK(most == (alone ? 12 : 3) * limits::kPieceBytes);  // 8 and the parity of two stripes
    for (auto& volume : world.volumes) volume->kept.clear();
    world.settle();
    CHECK(world.budget.used_bytes() == others.bytes());
  }
}

TEST_CASE("a writer that is destroyed before commit leaves nothing behind") {
  for (const std::size_t stop : {std::size_t{0}, 2 * kStripe + 1, 5 * kStripe}) {
    BlobWorld world;
    world.volumes[3]->faults.stall_append = 4;
    const std::string body = BlobWorld::body(6 * kStripe);
    const auto gone = world.put(body, 50'000, [&](std::size_t at) {
      if (at >= stop) {
        for (auto& volume : world.volumes) volume->faults.fail_append = 1;
      }
    });
    CHECK(gone.has_error());
    world.settle();
    CHECK(world.fragments() == 0);
    CHECK(world.budget.used_bytes() == 0);
    for (auto& volume : world.volumes) CHECK(volume->counters.writers_open == 0);
  }
}

TEST_CASE("discard removes what was committed") {
  BlobWorld world;
  const auto blob = run_task(world.io, world.clock, world.write(BlobWorld::body(kStripe)));
  REQUIRE(blob.has_value());
  CHECK(world.fragments() == 6);
  world.volumes[2]->faults.state = VolumeStatus::State::closed;
  boost::asio::co_spawn(world.io, world.writer->discard(), boost::asio::detached);
  run_all(world.io, world.clock);
  CHECK(world.fragments() == 1);
}

TEST_CASE("a lease counts from before its call: a connection that breaks meanwhile ends it") {
  BlobWorld world;
  const auto blob = run_task(world.io, world.clock, world.write(BlobWorld::body(kStripe)));
  REQUIRE(blob.has_value());
  ++world.connection_changes;
  FakeHolder& last = *world.volumes[5];
  last.faults.during_pin = [&world] { ++world.connection_changes; };
  const auto ensure = [&] {
    return run_task(world.io, world.clock, world.writer->ensure_leases(*blob, world.deadline()));
  };
  CHECK(ensure().has_value());
  CHECK(last.counters.pins == 1);
  last.faults.during_pin = nullptr;
  CHECK(ensure().has_value());
  CHECK(last.counters.pins == 2);
}

TEST_CASE("fresh leases need no call, old ones and those of before a break are pinned again") {
  BlobWorld world;
  const auto blob = run_task(world.io, world.clock, world.write(BlobWorld::body(kStripe)));
  REQUIRE(blob.has_value());
  const auto pins = [&] {
    int sum = 0;
    for (auto& volume : world.volumes) sum += volume->counters.pins;
    return sum;
  };
  const auto ensure = [&] {
    return run_task(world.io, world.clock, world.writer->ensure_leases(*blob, world.deadline()));
  };
  world.clock.advance(hours(12) - seconds(1));
  CHECK(ensure().has_value());
  CHECK(pins() == 0);
  world.clock.advance(seconds(1));
  CHECK(ensure().has_value());
  CHECK(pins() == 6);
  CHECK(ensure().has_value());
  CHECK(pins() == 6);
  ++world.connection_changes;  // any of the holders may have started anew
  CHECK(ensure().has_value());
  CHECK(pins() == 12);
  CHECK(ensure().has_value());
  CHECK(pins() == 12);
  world.clock.advance(hours(12));
  world.volumes[0]->faults.fail_pin = true;
  const auto unpinned = ensure();
  REQUIRE(unpinned.has_value());
  REQUIRE(unpinned->size() == 1);  // which no record may name
  CHECK(world.at(blob->locations[(*unpinned)[0].slot].volume).faults.fail_pin);
  world.volumes[1]->lose_all();
  world.clock.advance(hours(12));
  CHECK(ensure().error().code == Errc::unavailable);
}

TEST_CASE("an update that is tried again leaves out no more fragments than one try may") {
  BlobWorld world;  // 4+2: five must stay
  const auto blob = run_task(world.io, world.clock, world.write(BlobWorld::body(kStripe)));
  REQUIRE(blob.has_value());
  WriterLease lease(*world.writer, *blob);
  const auto ensure = [&] {
    world.clock.advance(hours(12));
    return run_task(world.io, world.clock, lease.ensure(world.deadline()));
  };
  BlobRef named = *blob;
  world.slot(*blob, 1).faults.fail_pin = true;
  auto lost = ensure();
  REQUIRE(lost.has_value());
  leave_out(named, *lost);
  CHECK(named.locations[1].volume.value == 0);
  world.slot(*blob, 1).faults.fail_pin = false;  // it answers again, but is left out
  lost = ensure();
  REQUIRE(lost.has_value());
  CHECK(lost->empty());
  world.slot(*blob, 2).faults.fail_pin = true;
  CHECK(ensure().error().code == Errc::unavailable);
}

TEST_CASE("of uploads at the same time only the first ones have more than they need") {
  BlobWorld world;
  constexpr std::size_t kLast = 100 << 20;
  const auto open = [&world] {
    const std::size_t before = world.budget.used_bytes();
    auto opened =
        run_task(world.io, world.clock, world.blobs->write(world.owner, kLast, world.deadline()));
    REQUIRE(opened);
    return std::pair(std::move(*opened), world.budget.used_bytes() - before);
  };
  const auto first = open();
  const auto second = open();
  const auto third = open();
  CHECK(first.second > second.second + (1 << 20));
  CHECK(second.second == third.second);
}

TEST_CASE("memory is taken from the budget, bounded, and given back") {
  BlobWorldShape shape;
  shape.replicated_bytes_max = 128 << 10;
  BlobWorld world(shape);
  const auto used_during = [&](std::size_t size) {
    std::size_t used = 0;
    REQUIRE(world
                .put(BlobWorld::body(size), 1 << 20,
                     [&](std::size_t) { used = std::max(used, world.budget.used_bytes()); })
                .has_value());
    CHECK(world.budget.used_bytes() == 0);
    return used;
  };
  CHECK(used_during(100) == 16 << 10);
  CHECK(used_during(100'000) == 112 << 10);
  CHECK(used_during(200'000) == (208 << 10) + 2 * (64 << 10));
  CHECK(used_during(20 << 20) == (6 << 20) + 4 * (64 << 10));
  auto most = world.budget.take(world.budget.limit_bytes() - (6 << 20));
  REQUIRE(most.has_value());
  std::size_t used = 0;
  REQUIRE(world
              .put(BlobWorld::body(20 << 20), 1 << 20,
                   [&](std::size_t) {
                     used = std::max(used, world.budget.used_bytes() - most->bytes());
                   })
              .has_value());
  CHECK(used == 7 * limits::kPieceBytes + 2 * (64 << 10));
  auto rest = world.budget.take(6 << 20);
  REQUIRE(rest.has_value());
  CHECK(world.put("x").error().code == Errc::overloaded);
}

}  // namespace
}  // namespace penstock
