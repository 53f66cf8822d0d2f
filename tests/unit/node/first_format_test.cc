#include "server/node/first_format.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"
#include "tests/fake/fake_clock.h"
#include "tests/fake/fake_disk.h"
#include "tests/fake/seeded_random.h"

namespace penstock {
namespace {

constexpr std::size_t kVolumes = 3;

class HereWorker final : public Worker {
 public:
  void submit(std::function<void()> job) override { job(); }
};

// Three directories below one, on disks that forget.
struct Directories {
  explicit Directories(std::uint64_t seed) : random(seed) {
    for (std::size_t i = 0; i <= kVolumes; ++i) {
      disks.push_back(std::make_unique<FakeDisk>("d" + std::to_string(i)));
    }
  }
  FirstFormat store() const {
    FirstFormat store;
    for (std::size_t i = 0; i < kVolumes; ++i) store.volumes.push_back(disks[i]->share());
    store.above = disks[kVolumes]->share();
    return store;
  }
  ClusterMap map() {
    std::vector<MapVolume> entries(kVolumes);
    for (MapVolume& entry : entries) {
      entry.id = VolumeId{random.next()};
      entry.name = "v" + std::to_string(&entry - entries.data());
      entry.host = "local";
    }
    return make_map(ClusterId{random.next(), random.next()}, entries, 4).value();
  }
  // What a start does.
  Result<> start() {
    TRY(wanted, wants_first_format(store()));
    if (!wanted) return {};
    return format_store(store(), map(), clock, random, worker, 1);
  }
  void crash() {
    for (auto& disk : disks) disk->crash(random);
  }
  bool is_whole() const {
    std::optional<ClusterId> cluster;
    for (std::size_t i = 0; i < kVolumes; ++i) {
      const auto identity = read_identity(*disks[i]);
      if (!identity || is_formatting(*disks[i])) return false;
      if (cluster && !(*cluster == identity->cluster)) return false;
      cluster = identity->cluster;
    }
    return disks[kVolumes]->exists("cluster");
  }

  SeededRandom random;
  FakeClock clock;
  HereWorker worker;
  std::vector<std::unique_ptr<FakeDisk>> disks;  // the last one is that above the others
};

TEST_CASE("A first format that is cut off anywhere is done or ended by the next start") {
  std::vector<std::uint64_t> changes;
  {
    Directories whole(1);
    REQUIRE(whole.start());
    REQUIRE(whole.is_whole());
    for (const auto& disk : whole.disks) changes.push_back(disk->changes());
  }
  for (std::size_t at = 0; at <= kVolumes; ++at) {
    REQUIRE(changes[at] > 2);
    for (std::uint64_t cut = 1; cut <= changes[at]; ++cut) {
      CAPTURE(at);
      CAPTURE(cut);
      Directories cut_off(100 * at + cut);
      cut_off.disks[at]->stop_at_change(cut);
      CHECK_FALSE(cut_off.start());
      cut_off.crash();
      const auto again = cut_off.start();
      CHECK_MESSAGE(again, (again ? "" : again.error().context));
      CHECK(cut_off.is_whole());
    }
  }
}

TEST_CASE("A store that was formatted is never formatted again") {
  Directories there(7);
  REQUIRE(there.start());
  CHECK_FALSE(wants_first_format(there.store()).value());
  there.disks[0]->wipe();
  there.disks[1]->wipe();
  CHECK_FALSE(wants_first_format(there.store()).value());
  there.disks[2]->wipe();
  const auto gone = wants_first_format(there.store());
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == Errc::corrupt);
}

TEST_CASE("A store whose first volumes are gone is there while others lie elsewhere") {
  Directories there(8);
  REQUIRE(there.start());
  for (std::size_t i = 0; i < kVolumes; ++i) there.disks[i]->wipe();
  FirstFormat store = there.store();
  store.elsewhere = true;
  const auto wanted = wants_first_format(store);
  REQUIRE(wanted);
  CHECK_FALSE(*wanted);
}

TEST_CASE("Within a volume no store is made") {
  Directories there(10);
  REQUIRE(there.start());
  FirstFormat inside;
  inside.volumes.resize(kVolumes);
  inside.above = there.disks[0]->share();
  CHECK(code_of(wants_first_format(inside)) == Errc::invalid);
}

TEST_CASE("A directory that holds other files is refused and left as it is") {
  Directories mixed(9);
  REQUIRE(mixed.disks[1]->open("precious", OpenMode::write_new));
  const auto started = mixed.start();
  REQUIRE_FALSE(started);
  CHECK(code_of(started) == Errc::invalid);
  CHECK(mixed.disks[0]->files().empty());
  CHECK(mixed.disks[1]->files() == std::vector<std::string>{"precious"});
}

}  // namespace
}  // namespace penstock
