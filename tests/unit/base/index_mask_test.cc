#include "penstock/index_mask.h"

#include <doctest/doctest.h>

using namespace penstock;

TEST_CASE("a mask holds what was added, also the last number, and no number beyond it") {
  IndexMask mask;
  CHECK(mask.empty());
  for (const std::size_t index : {0u, 7u, 31u}) mask.add(index);
  CHECK(mask.count() == 3);
  CHECK(mask.first() == 0);
  CHECK(mask.has(31));
  CHECK_FALSE(mask.has(1));
  CHECK_FALSE(mask.has(32));
  CHECK_FALSE(mask.has(33 + 31));
  mask.remove(0);
  mask.remove(0);
  CHECK(mask.first() == 7);
  CHECK(mask == (IndexMask::of(7) | IndexMask::of(31)));
}

TEST_CASE("masks are joined, met and taken from each other as sets are") {
  CHECK(IndexMask::below(0).empty());
  CHECK(IndexMask::below(IndexMask::kMax).count() == IndexMask::kMax);
  const IndexMask low = IndexMask::below(3);
  const IndexMask odd = IndexMask::of(1) | IndexMask::of(3);
  CHECK((low & odd) == IndexMask::of(1));
  CHECK((low | odd) == IndexMask::below(4));
  CHECK((low - odd) == (IndexMask::of(0) | IndexMask::of(2)));
  CHECK((odd - low) == IndexMask::of(3));
}
