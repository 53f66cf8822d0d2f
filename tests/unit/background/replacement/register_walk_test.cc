#include "server/background/replacement/register_walk.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

// Walks all objects to the end; the keys.
std::set<std::string> walk_to_end(BackgroundWorld& world, RegisterWalk& walk) {
  std::set<std::string> keys;
  while (true) {
    auto found = world.cluster.run(walk.next(10, world.cluster.soon()));
    REQUIRE(found);
    if (found->empty()) return keys;
    for (const auto& row : *found) keys.insert(row.key.key);
  }
}

TEST_CASE("a volume that cannot read one of its rows has not listed them all") {
  BackgroundWorld world;
  for (const char* key : {"a", "b", "c"}) world.put(key);
  std::vector<std::shared_ptr<VolumeClient>> volumes(world.cluster.volumes.begin(),
                                                     world.cluster.volumes.end());
  FakeVolume* damaged = nullptr;
  for (const auto& volume : world.cluster.volumes) {
    for (auto& [key, row] : volume->acceptor.rows) {
      if (damaged != nullptr || key.key != "b") continue;
      row.unreadable = true;
      damaged = volume.get();
    }
  }
  REQUIRE(damaged != nullptr);
  for (const std::uint32_t page_rows : {1000u, 1u}) {
    RegisterWalk walk(RowKind::object, volumes, world.cluster.clock, page_rows);
    const auto keys = walk_to_end(world, walk);
    for (const char* key : {"a", "b", "c"}) CHECK(keys.contains(key));
    const auto listed = walk.listed();
    CHECK(listed.size() == volumes.size() - 1);
    CHECK(std::find(listed.begin(), listed.end(), damaged->id()) == listed.end());
  }
}

}  // namespace
}  // namespace penstock
