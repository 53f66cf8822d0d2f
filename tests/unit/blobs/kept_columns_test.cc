// What a reader keeps of a stripe: found once, forgotten behind it, its memory given back with it.
#include "server/blobs/kept_columns.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

namespace penstock {
namespace {

constexpr std::size_t kBytes = 1 << 10;

FragmentId fragment_of(std::uint64_t write, std::uint32_t slot) {
  FragmentId id;
  id.write_id = WriteId{write, 1};
  id.slot = slot;
  return id;
}

KeptColumns::Column column_of(std::uint64_t write, std::uint32_t slot, std::uint64_t offset) {
  KeptColumns::Column column;
  column.fragment = fragment_of(write, slot);
  column.offset = offset;
  column.piece.memory = Buffer::copy_of(std::vector<std::byte>(kBytes, std::byte{1}));
  column.piece.length = kBytes;
  return column;
}

struct World {
  MemoryBudget budget{100 * kBytes};
  KeptColumns kept;

  void keep(std::vector<KeptColumns::Column> columns) {
    auto lease = budget.take(columns.size() * kBytes);
    REQUIRE(lease.has_value());
    kept.keep(std::move(columns), std::move(*lease));
  }
  bool has(std::uint64_t write, std::uint32_t slot, std::uint64_t stripe, std::uint64_t offset,
           std::uint64_t length = kBytes) {
    return kept.take(fragment_of(write, slot), stripe, offset, length).has_value();
  }
};

TEST_CASE("a column is found once, and its memory goes with it") {
  World world;
  world.keep({column_of(1, 0, 0), column_of(1, 1, 0), column_of(1, 1, kBytes)});
  CHECK(world.budget.used_bytes() == 3 * kBytes);
  CHECK(!world.has(1, 2, 0, 0));
  CHECK(world.has(1, 1, 0, 0));
  CHECK(world.budget.used_bytes() == 2 * kBytes);
  CHECK(!world.has(1, 1, 0, 0));
  CHECK(world.has(1, 1, 0, kBytes));
  CHECK(world.has(1, 0, 0, 0));
  CHECK(world.budget.used_bytes() == 0);
}

TEST_CASE("a column of another length is no use, and goes") {
  World world;
  world.keep({column_of(1, 0, 0)});
  CHECK(!world.has(1, 0, 0, 0, kBytes / 2));
  CHECK(world.budget.used_bytes() == 0);
}

TEST_CASE("a reader that has come to another stripe or blob forgets those behind it") {
  World world;
  world.keep({column_of(1, 0, 0), column_of(1, 1, 0)});
  world.keep({column_of(1, 2, 4 * kBytes)});
  CHECK(!world.has(1, 3, 4 * kBytes, 4 * kBytes));
  CHECK(world.budget.used_bytes() == kBytes);
  CHECK(world.has(1, 2, 4 * kBytes, 4 * kBytes));
  world.keep({column_of(1, 0, 8 * kBytes)});
  CHECK(!world.has(2, 0, 0, 0));
  CHECK(world.budget.used_bytes() == 0);
}

TEST_CASE("all of it can be given up") {
  World world;
  world.keep({column_of(1, 0, 0)});
  world.keep({column_of(1, 1, 0)});
  world.kept.clear();
  CHECK(world.budget.used_bytes() == 0);
  CHECK(!world.has(1, 0, 0, 0));
}

}  // namespace
}  // namespace penstock
