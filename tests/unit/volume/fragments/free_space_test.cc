#include "server/volume/fragments/free_space.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <set>

namespace penstock {
namespace {
constexpr std::uint64_t kGranule = 4096;
}

TEST_CASE("allocations follow each other and never overlap") {
  FreeSpace space;
  space.add_segment(1, 100 * kGranule);
  std::uint64_t next = 0;
  for (const std::uint64_t granules : {1u, 7u, 64u, 3u, 25u}) {
    const auto span = space.allocate(granules * kGranule);
    REQUIRE(span);
    CHECK(span->offset == next);
    CHECK(span->segment == 1);
    next += granules * kGranule;
  }
  CHECK(space.free_bytes() == 0);
  CHECK_FALSE(space.allocate(kGranule));
}

TEST_CASE("what is released is found again, also across words and behind the cursor") {
  FreeSpace space;
  space.add_segment(7, 256 * kGranule);
  const auto a = space.allocate(60 * kGranule);
  const auto b = space.allocate(10 * kGranule);  // crosses a word
  const auto c = space.allocate(186 * kGranule);
  REQUIRE((a && b && c));
  CHECK_FALSE(space.allocate(kGranule));
  space.release(*b);
  CHECK_FALSE(space.allocate(11 * kGranule));
  const auto again = space.allocate(10 * kGranule);
  REQUIRE(again);
  CHECK(again->offset == b->offset);
  space.release(*a);
  space.release(*again);
  CHECK(space.allocate(70 * kGranule)->offset == 0);  // the two runs have merged
}

TEST_CASE("a row's span is taken once; one outside of every segment is told apart") {
  FreeSpace space;
  space.add_segment(2, 128 * kGranule);
  CHECK(space.take({2, 60 * kGranule, 8 * kGranule}) == FreeSpace::Taken::yes);
  CHECK(space.take({2, 67 * kGranule, kGranule}) == FreeSpace::Taken::overlap);
  CHECK(space.take({2, 127 * kGranule, 2 * kGranule}) == FreeSpace::Taken::outside);
  CHECK(space.take({3, 0, kGranule}) == FreeSpace::Taken::outside);
  space.release({3, 0, kGranule});
  CHECK(space.free_bytes() == 120 * kGranule);
}

TEST_CASE("random allocations and releases agree with a plain set of granules") {
  std::mt19937_64 random(42);
  FreeSpace space;
  constexpr std::uint64_t kGranules = 512;
  for (std::uint32_t number = 1; number <= 3; ++number) {
    space.add_segment(number, kGranules * kGranule);
  }
  std::set<std::pair<std::uint32_t, std::uint64_t>> used;
  std::vector<ExtentSpan> spans;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 100 < 55) {
      const std::uint64_t granules = 1 + random() % 40;
      const auto span = space.allocate(granules * kGranule);
      if (!span) {
        // No run of that length may be left anywhere.
        for (std::uint32_t number = 1; number <= 3; ++number) {
          std::uint64_t run = 0;
          for (std::uint64_t g = 0; g < kGranules; ++g) {
            run = used.contains({number, g}) ? 0 : run + 1;
            REQUIRE(run < granules);
          }
        }
        continue;
      }
      for (std::uint64_t g = 0; g < granules; ++g) {
        REQUIRE(used.insert({span->segment, span->offset / kGranule + g}).second);
      }
      spans.push_back(*span);
    } else if (!spans.empty()) {
      std::swap(spans[random() % spans.size()], spans.back());
      const ExtentSpan span = spans.back();
      spans.pop_back();
      space.release(span);
      for (std::uint64_t g = 0; g < span.length / kGranule; ++g) {
        used.erase({span.segment, span.offset / kGranule + g});
      }
    }
    REQUIRE(space.free_bytes() == (3 * kGranules - used.size()) * kGranule);
  }
}

}  // namespace penstock
