// What the watch over a disk's calls sees, and what it keeps from threads that must not wait.
#include "server/volume/disk/disk_watch.h"

#include <doctest/doctest.h>

#include <array>
#include <set>

#include "tests/fake/fake_clock.h"
#include "tests/fake/observed_disk.h"

namespace penstock {
namespace {

using Call = FakeDisk::Call;

struct WatchedWorld {
  WatchedWorld() {
    auto observed = make_observed_disk(medium.share(),
                                       [this](Call call, const std::string&) { observer(call); });
    disk = make_watched_disk(std::move(observed), watch);
  }
  std::unique_ptr<File> open(const std::string& name, OpenMode mode) {
    auto file = disk->open(name, mode);
    REQUIRE(file);
    return std::move(*file);
  }

  FakeDisk medium;
  FakeClock clock;
  std::shared_ptr<DiskWatch> watch = std::make_shared<DiskWatch>(clock);
  std::function<void(Call)> observer = [](Call) {};
  std::unique_ptr<Disk> disk;
};

}  // namespace

TEST_CASE("a call of any kind is under the watch from its begin to its end") {
  WatchedWorld world;
  std::set<Call> seen;
  world.observer = [&](Call call) {
    CAPTURE(static_cast<int>(call));
    seen.insert(call);
    CHECK(world.watch->look());
  };
  constexpr std::array<std::byte, 8> kBytes{};
  std::array<std::byte, 8> buffer{};
  const auto file = world.open("a", OpenMode::write_new);
  CHECK(file->write_at(0, kBytes));
  seen.erase(Call::write);
  const ConstBytes parts[] = {kBytes, kBytes};
  CHECK(file->write_parts(0, parts));
  CHECK(file->sync());
  CHECK(file->allocate(0, 4096));
  CHECK(file->truncate(8));
  CHECK(file->read_at(0, buffer));
  CHECK(world.disk->rename("a", "b"));
  CHECK(world.disk->remove("b"));
  CHECK(world.disk->make_directory("d"));
  CHECK(world.disk->sync_directory("d"));
  CHECK(seen.size() == FakeDisk::kCalls);
  CHECK(!world.watch->look());
}

TEST_CASE("pauses add nothing to the age of a call, and take nothing from it") {
  using std::chrono::seconds;
  WatchedWorld world;
  constexpr std::array<std::byte, 8> kBytes{};
  const auto file = world.open("a", OpenMode::write_new);
  world.observer = [&](Call call) {
    if (call != Call::write) return;
    for (int round = 1; round <= 3; ++round) {
      for (int i = 0; i < 4; ++i) {
        world.clock.advance(seconds(1));
        world.watch->look();
      }
      world.clock.advance(seconds(3600));
      const auto behind = world.watch->look();
      REQUIRE(behind);
      CHECK(behind->age == seconds(4 * round));
      CHECK(world.watch->late());
    }
  };
  CHECK(file->write_at(0, kBytes));
  world.watch->look();
  // Begun behind the pause, before anybody has looked: it is as old as it seems, no older.
  world.clock.advance(seconds(3600));
  world.observer = [&](Call call) {
    if (call != Call::sync) return;
    world.clock.advance(seconds(1));
    CHECK(world.watch->look()->age <= seconds(1));
    world.clock.advance(seconds(1));
    CHECK(world.watch->look()->age >= seconds(1));
  };
  CHECK(file->sync());
}

TEST_CASE("while a call is late nothing is read on the caller's thread") {
  WatchedWorld world;
  constexpr std::array<std::byte, 8> kBytes{};
  std::array<std::byte, 8> buffer{};
  const auto file = world.open("a", OpenMode::write_new);
  REQUIRE(file->write_at(0, kBytes));
  REQUIRE(file->read_now(0, buffer));
  world.observer = [&](Call call) {
    if (call != Call::sync) return;
    world.clock.advance(limits::kDiskLate + std::chrono::milliseconds(1));
    world.watch->look();
    CHECK(!file->read_now(0, buffer));
  };
  REQUIRE(file->sync());
  world.watch->look();
  CHECK(file->read_now(0, buffer));
}

}  // namespace penstock
