#include "server/volume/fragments/fragment_cache.h"

#include <doctest/doctest.h>

namespace penstock {
namespace {

struct Space {
  std::vector<std::uint64_t> released;  // offsets, in order
  std::shared_ptr<FragmentHolds> holds = std::make_shared<FragmentHolds>(
      [this](const ExtentSpan& span) { released.push_back(span.offset); });

  FragmentHandlePtr handle(std::uint64_t number, std::size_t blocks = 1,
                           FragmentPlace place = FragmentPlace::segment) {
    auto made = std::make_shared<FragmentHandle>();
    made->id.write_id.low = number;
    made->row.place = place;
    made->table.resize(blocks);
    made->hold = holds->acquire(made->id);
    return made;
  }
};

FragmentId id_of(std::uint64_t number) { return {WriteId{0, number}, 0, Generation{}}; }
ExtentSpan span_at(std::uint64_t offset) { return {1, offset, 4096}; }

}  // namespace

TEST_CASE("the space of a retired fragment is free when its last reader is gone, and not before") {
  Space space;
  auto first = space.holds->acquire(id_of(1));
  auto second = space.holds->acquire(id_of(1));
  CHECK(first == second);
  space.holds->retire(id_of(1), span_at(4096));
  CHECK(first->is_retired());
  first = nullptr;
  CHECK(space.released.empty());
  second = nullptr;
  CHECK(space.released == std::vector<std::uint64_t>{4096});
}

TEST_CASE("without readers the space is free at once") {
  Space space;
  space.holds->retire(id_of(1), span_at(4096));
  space.holds->acquire(id_of(2)) = nullptr;
  space.holds->retire(id_of(2), span_at(8192));
  CHECK(space.released == std::vector<std::uint64_t>{4096, 8192});
}

TEST_CASE("who reads the successor of a replaced fragment does not hold the old space") {
  Space space;
  auto old_reader = space.holds->acquire(id_of(1));
  space.holds->retire(id_of(1), span_at(4096));
  auto new_reader = space.holds->acquire(id_of(1));
  CHECK(new_reader != old_reader);
  CHECK_FALSE(new_reader->is_retired());
  old_reader = nullptr;
  CHECK(space.released == std::vector<std::uint64_t>{4096});
  space.holds->retire(id_of(1), span_at(8192));  // the end of the old hold left the new one known
  CHECK(space.released.size() == 1);
  new_reader = nullptr;
  CHECK(space.released == std::vector<std::uint64_t>{4096, 8192});
}

TEST_CASE("the cache forgets the least recently used first and keeps within its bytes") {
  Space space;
  FragmentCache cache(10'000, 4);
  for (std::uint64_t n = 1; n <= 5; ++n) cache.insert(space.handle(n, 400));  // about 1.9 KB each
  CHECK(cache.find(id_of(1)) != nullptr);
  cache.insert(space.handle(6, 400));
  CHECK(cache.bytes() <= 10'000);
  CHECK(cache.find(id_of(1)) != nullptr);
  CHECK(cache.find(id_of(2)) == nullptr);
  CHECK(cache.find(id_of(6)) != nullptr);
  cache.insert(space.handle(7, 40'000));  // larger than the cache: kept alone
  CHECK(cache.find(id_of(7)) != nullptr);
  CHECK(cache.find(id_of(6)) == nullptr);
}

TEST_CASE("files are bounded by their number") {
  Space space;
  FragmentCache cache(1'000'000, 4);
  cache.insert(space.handle(100));
  for (std::uint64_t n = 1; n <= 6; ++n) cache.insert(space.handle(n, 1, FragmentPlace::file));
  CHECK(cache.find(id_of(2)) == nullptr);
  CHECK(cache.find(id_of(3)) != nullptr);
  CHECK(cache.find(id_of(100)) != nullptr);
}

TEST_CASE("a handle that a removal overtook is not kept, and an erased one lets go of its hold") {
  Space space;
  FragmentCache cache(10'000, 4);
  auto late = space.handle(1);
  space.holds->retire(id_of(1), span_at(4096));
  cache.insert(std::move(late));
  CHECK(cache.find(id_of(1)) == nullptr);
  CHECK(space.released == std::vector<std::uint64_t>{4096});
  cache.insert(space.handle(2));
  space.holds->retire(id_of(2), span_at(8192));
  cache.erase(id_of(2));
  CHECK(space.released == std::vector<std::uint64_t>{4096, 8192});
}

}  // namespace penstock
