// Reads on an I/O thread: what is in memory is answered, and a disk that hangs holds nobody up.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/volume/rows/database.h"
#include "tests/fake/fake_clock.h"
#include "tests/fake/observed_disk.h"
#include "tests/fake/seeded_random.h"

namespace penstock {
namespace {

using Call = FakeDisk::Call;
constexpr std::chrono::seconds kForEver{20};

struct ReadDatabase {
  explicit ReadDatabase(DiskObserver observer = [](Call, const std::string&) {})
      : disk(make_observed_disk(medium.share(), std::move(observer))) {
    options.write_buffer_bytes = 64 * limits::kKiB;
    options.log_file_bytes_min = 64 * limits::kKiB;
    options.block_cache_bytes = 0;
    REQUIRE(Database::create(*disk, clock, random, *worker, options));
    open();
  }
  ~ReadDatabase() { database.reset(); }
  void open() {
    database.reset();
    auto opened = Database::open(*disk, clock, random, *worker, options);
    REQUIRE(opened);
    database = std::move(*opened);
  }
  Result<> put(const std::string& key, std::size_t bytes = 4000) {
    leveldb::WriteBatch batch;
    batch.Put(key, std::string(bytes, key.front()));
    return database->write(batch);
  }
  // As an I/O thread would ask. It must not hang.
  bool answers(const std::string& key) {
    auto answer = std::async(std::launch::async, [this, key] { return database->get_now(key); });
    REQUIRE(answer.wait_for(kForEver) == std::future_status::ready);
    const auto found = answer.get();
    if (found && *found) CHECK((*found)->front() == key.front());
    return found.has_value();
  }

  FakeDisk medium;
  FakeClock clock;
  SeededRandom random{1};
  std::unique_ptr<Worker> worker = std::make_unique<ThreadWorker>("compaction", 1);
  std::unique_ptr<Disk> disk;
  DatabaseOptions options;
  std::unique_ptr<Database> database;
};

// Holds up the calls of one kind, as a disk does that hangs.
class Hang {
 public:
  Hang(Call call, std::string suffix) : call_(call), suffix_(std::move(suffix)) {}
  void pass(Call call, const std::string& name) {
    if (!armed_ || call != call_ || !name.ends_with(suffix_)) return;
    ++stuck_;
    released_.wait();
  }
  void arm() { armed_ = true; }
  void wait_until_stuck() {
    while (stuck_ == 0) std::this_thread::yield();
  }
  void release() {
    armed_ = false;
    release_.set_value();
  }

 private:
  const Call call_;
  const std::string suffix_;
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  std::atomic<bool> armed_{false};
  std::atomic<int> stuck_{0};
};

}  // namespace

TEST_CASE("what a memtable or a page in memory holds is answered at once, and so is its absence") {
  ReadDatabase world;
  REQUIRE(world.put("a"));
  CHECK(world.answers("a"));
  const auto absent = world.database->get_now("b");
  CHECK((absent && !*absent));
  world.open();  // makes a table
  REQUIRE(world.put("b"));
  world.open();  // makes another, in which an open finds what it asks for
  world.open();
  CHECK_FALSE(world.answers("a"));  // a worker opens tables
  REQUIRE(world.database->get("a"));
  CHECK(world.answers("a"));
  world.medium.set_cold(true);
  CHECK_FALSE(world.answers("a"));
  CHECK(**world.database->get("a") == std::string(4000, 'a'));
  world.medium.set_cold(false);
  CHECK(world.answers("a"));
}

TEST_CASE("a damaged block is left to those who can say what is wrong") {
  ReadDatabase world;
  REQUIRE(world.put("a"));
  world.open();
  REQUIRE(world.database->get("a"));
  for (const std::string& file : world.medium.files()) {
    if (file.ends_with(".ldb")) world.medium.flip_bit(file, 100, 0);
  }
  CHECK_FALSE(world.answers("a"));
}

TEST_CASE("nobody waits for a disk that hangs when a log is begun") {
  Hang hang(Call::create, ".log");
  ReadDatabase world([&](Call call, const std::string& name) { hang.pass(call, name); });
  REQUIRE(world.put("a"));
  CHECK(world.answers("a"));
  hang.arm();
  auto writer = std::async(std::launch::async, [&] {
    for (int i = 0; i < 40; ++i) CHECK(world.put("b" + std::to_string(i)));
  });
  hang.wait_until_stuck();
  CHECK(world.answers("a"));  // LevelDB has nothing to do with it
  hang.release();
  writer.get();
  CHECK(*world.database->get("b1"));
}

TEST_CASE("nobody waits for a disk that hangs when a compaction or a list opens tables") {
  for (const bool list : {false, true}) {
    CAPTURE(list);
    std::optional<Hang> hang(std::in_place, Call::read, ".ldb");
    ReadDatabase world([&](Call call, const std::string& name) { hang->pass(call, name); });
    for (int i = 0; i < 20; ++i) REQUIRE(world.put("a" + std::to_string(i)));
    world.open();  // makes the last table
    world.open();  // none is open now
    world.medium.set_cold(true);
    hang->arm();
    auto user = std::async(std::launch::async, [&] {
      if (list) {
        const auto cursor = world.database->scan();
        cursor->seek("");
      } else {
        for (int i = 0; i < 100; ++i) CHECK(world.put("a" + std::to_string(i)));
      }
    });
    hang->wait_until_stuck();
    world.answers("a1");
    hang->release();
    user.get();
  }
}

TEST_CASE("batches of several threads are one log, in the order in which the rows have them") {
  ReadDatabase world;
  std::vector<std::thread> threads;
  for (const char thread : {'a', 'b', 'c'}) {
    threads.emplace_back([&world, thread] {
      for (int i = 0; i < 200; ++i) {
        leveldb::WriteBatch batch;
        batch.Put("newest", std::string(1, thread) + std::to_string(i));
        batch.Put(std::string(1, thread), std::to_string(i));
        CHECK(world.database->write(batch));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto newest = world.database->get("newest");
  REQUIRE((newest && *newest));
  world.medium.crash(world.random, Keep::none, Keep::none);
  world.database.reset();
  world.disk = world.medium.share();
  world.open();
  CHECK(**world.database->get("newest") == **newest);
  for (const char* thread : {"a", "b", "c"}) CHECK(**world.database->get(thread) == "199");
}

}  // namespace penstock
