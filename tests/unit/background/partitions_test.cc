// Every job finds the register of what it works off in whichever partition its key is.
#include <doctest/doctest.h>

#include "server/background/removal/hint_worker.h"
#include "server/background/removal/orphan_sweep.h"
#include "server/background/removal/tombstone_purge.h"
#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

constexpr std::uint32_t kPartitions = 16;
constexpr const char* kSpreadKeys[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

}  // namespace

TEST_CASE("in a bucket of many partitions hints free what was overwritten, and nothing else") {
  BackgroundWorld world(kPartitions);
  HintWorker worker(world.context);
  std::vector<BlobRef> old, now;
  for (const char* key : kSpreadKeys) {
    old.push_back(world.put(key));
    now.push_back(world.put(key));
  }
  world.cluster.clock.advance(limits::kHintDelay + std::chrono::minutes(1));
  world.pass(worker);
  for (const BlobRef& blob : old) CHECK(world.held(blob) == 0);
  for (const BlobRef& blob : now) CHECK(world.held(blob) == 6);
  CHECK(world.hints() == 0);
}

TEST_CASE("in a bucket of many partitions the sweep takes what no record names, nothing else") {
  BackgroundWorld world(kPartitions);
  OrphanSweep orphans(world.context);
  std::vector<BlobRef> named, orphaned;
  for (const char* key : kSpreadKeys) {
    named.push_back(world.put(key));
    orphaned.push_back(world.write(key));
    world.unpin(named.back());
    world.unpin(orphaned.back());
  }
  CHECK(world.pass(orphans));
  world.cluster.clock.advance(world.context.options.hint_delay);
  CHECK(world.pass(orphans));
  for (const BlobRef& blob : named) CHECK(world.held(blob) == 6);
  for (const BlobRef& blob : orphaned) CHECK(world.held(blob) == 0);
}

TEST_CASE("in a bucket of many partitions tombstones are purged") {
  BackgroundWorld world(kPartitions);
  TombstonePurge purge(world.context);
  for (const char* key : kSpreadKeys) {
    world.put(key);
    world.remove(key);
  }
  world.pass(purge);
  world.cluster.clock.advance(limits::kTombstoneWait + std::chrono::minutes(1));
  world.pass(purge);
  CHECK(world.context.board->read().tombstones_purged == std::size(kSpreadKeys));
  for (const char* key : kSpreadKeys) {
    for (const auto& volume : world.cluster.volumes) {
      CHECK(volume->acceptor.rows.count(Index::object(*world.bucket, key).key) == 0);
    }
  }
}

}  // namespace penstock
