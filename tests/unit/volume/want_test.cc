// Want of descriptors or memory in the middle of work: the one call is refused, and nothing of it
// is left behind.
#include <atomic>
#include <thread>

#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

using Call = FakeDisk::Call;
using Fault = FakeDisk::Fault;

// A database whose compactions run on a thread of their own.
struct MergingDatabase {
  explicit MergingDatabase(DiskObserver observer)
      : disk(make_latching_disk(make_observed_disk(medium.share(), std::move(observer)),
                                [](const Error& error) { FAIL(error.context); })) {
    options.write_buffer_bytes = 64 * limits::kKiB;
    REQUIRE(Database::create(*disk, clock, random, *worker, options));
    auto opened = Database::open(*disk, clock, random, *worker, options);
    REQUIRE(opened);
    database = std::move(*opened);
  }
  ~MergingDatabase() { database.reset(); }
  Result<> put(std::uint64_t number) {
    leveldb::WriteBatch batch;
    batch.Put("key" + std::to_string(number % 40), std::string(4000, 'x'));
    return database->write(batch);
  }

  FakeDisk medium;
  FakeClock clock;
  SeededRandom random{1};
  std::unique_ptr<Worker> worker = std::make_unique<ThreadWorker>("compaction", 1);
  std::unique_ptr<Disk> disk;
  DatabaseOptions options;
  std::unique_ptr<Database> database;
};

}  // namespace

TEST_CASE("a merge of tables waits for descriptors and memory, and writes go on behind it") {
  for (const Call kind : {Call::create, Call::read}) {
    CAPTURE(static_cast<int>(kind));
    std::atomic<int> wanting{0};
    FakeDisk* medium = nullptr;
    const auto observer = [&](Call call, const std::string& name) {
      if (call != kind || !name.ends_with(".ldb") || wanting.load() == 0) return;
      --wanting;
      medium->fail(call, 1, Fault::scarce);
    };
    MergingDatabase world(observer);
    medium = &world.medium;
    wanting = 3;
    for (std::uint64_t next = 0; next < 400; ++next) REQUIRE(world.put(next));
    CHECK(wanting.load() == 0);
    CHECK(world.put(1));
  }
}

TEST_CASE("a database that waits for descriptors ends when it is closed") {
  std::atomic<bool> wanting{false};
  std::atomic<int> refused{0};
  FakeDisk* medium = nullptr;
  const auto observer = [&](Call call, const std::string& name) {
    if (call != Call::create || !name.ends_with(".ldb") || !wanting.load()) return;
    ++refused;
    medium->fail(call, 1, Fault::scarce);
  };
  MergingDatabase world(observer);
  medium = &world.medium;
  wanting = true;
  for (std::uint64_t next = 0; next < 20; ++next) REQUIRE(world.put(next));
  while (refused.load() < 2) std::this_thread::yield();
  world.database->close();
}

TEST_CASE("a drop that could not be stored leaves its key to others") {
  VolumeHarness h;
  h.fresh();
  h.close();
  VolumeOptions small = VolumeHarness::options();
  small.database.log_file_bytes_min = 64 * limits::kKiB;
  h.open(small);
  const RegisterKey dead = h.object("dead");
  h.store(dead, h.ballot(1), h.value(1, ValueKind::tombstone));
  h.disk.fail(Call::create, 1, Fault::scarce, true);  // the next log cannot be begun
  bool full = false;
  for (std::uint64_t i = 2; i < 100 && !full; ++i) {
    full = !h.accept(h.object("key" + std::to_string(i)), h.ballot(i), h.value(i));
  }
  REQUIRE(full);
  CHECK(code_of(h.drop(dead, h.ballot(1))) == Errc::overloaded);
  h.disk.heal();
  CHECK(h.read(dead)->ballot == h.ballot(1));
  CHECK(h.drop(dead, h.ballot(1)));
  CHECK(h.read(dead)->ballot.is_zero());
}

TEST_CASE("a row that cannot be read for want of memory is not taken for a damaged one") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  h.store(key, h.ballot(1), h.value(1), "bytes");
  h.close();
  VolumeOptions uncached = VolumeHarness::options();
  uncached.registers.cache_bytes = 0;
  uncached.database.block_cache_bytes = 0;
  h.open(uncached);
  h.disk.fail(Call::read, 1, Fault::scarce, true);
  const Ballot above = h.ballot(120'000'000);  // all that the volume can have accepted
  CHECK(code_of(h.accept(key, above, h.value(2))) == Errc::overloaded);
  h.disk.heal();
  CHECK(h.read(key)->ballot == h.ballot(1));
  h.store(key, above, h.value(2));
}

TEST_CASE("a merge of tables that lacks memory for a while does not refuse all writes for ever") {
  VolumeHarness h;
  h.fresh();
  h.close();
  VolumeOptions small = VolumeHarness::options();
  small.database.write_buffer_bytes = 64 * limits::kKiB;
  h.open(small);
  std::uint64_t next = 0;
  const auto add = [&h, &next] {
    const auto stored = h.accept(h.object("key" + std::to_string(next % 40)), h.ballot(next),
                                 h.value(next + 1), std::string(4000, 'x'));
    ++next;
    return stored.has_value();
  };
  while (next < 200) REQUIRE(add());
  h.disk.fail(FakeDisk::Call::read, 1, FakeDisk::Fault::scarce, true);
  while (next < 2000 && add()) {
  }
  CHECK(next < 2000);
  h.disk.heal();
  const bool stored = add();
  const bool open = h.volume->status().state == VolumeStatus::State::open;
  CHECK_MESSAGE((stored || !open), "it says that it is open, and takes no write any more");
}

}  // namespace penstock
