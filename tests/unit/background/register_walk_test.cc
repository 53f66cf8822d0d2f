#include "server/background/register_walk.h"

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
  std::vector<std::shared_ptr<VolumeClient>> volumes(world.cluster.nodes.begin(),
                                                     world.cluster.nodes.end());
  FakeNode* damaged = nullptr;
  for (const auto& node : world.cluster.nodes) {
    for (auto& [key, row] : node->acceptor.rows) {
      if (damaged != nullptr || key.key != "b") continue;
      row.unreadable = true;
      damaged = node.get();
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

TEST_CASE("a row that cannot be read is not forgotten over the pages that come behind it") {
  constexpr int kRows = 2'500;  // several pages
  for (const int damaged : {0, kRows / 2, kRows - 1}) {
    CAPTURE(damaged);
    BackgroundWorld world;
    world.put("key");
    const RegisterKey key = Index::object(*world.bucket, "key").key;
    FakeNode& holder = world.node(world.replicas().front());
    FakeAcceptor::Row row = holder.acceptor.rows.at(key);
    for (int i = 0; i < kRows; ++i) {
      row.unreadable = i == damaged;
      RegisterKey another = key;
      another.key = "key" + std::to_string(100'000 + i);
      holder.acceptor.rows[another] = row;
    }
    std::vector<std::shared_ptr<VolumeClient>> volumes(world.cluster.nodes.begin(),
                                                       world.cluster.nodes.end());
    RegisterWalk walk(RowKind::object, volumes, world.cluster.clock);
    // With the first key and the bucket itself, without the row that cannot be read.
    CHECK(walk_to_end(world, walk).size() == kRows + 1);
    const auto listed = walk.listed();
    CHECK(listed.size() == volumes.size() - 1);
    CHECK(std::find(listed.begin(), listed.end(), holder.id()) == listed.end());
  }
}

}  // namespace
}  // namespace penstock
