#include "placement/layout.h"

#include <doctest/doctest.h>

#include <random>

#include "penstock/limits.h"
#include "tests/fake/code_of.h"

namespace penstock {
namespace {

constexpr std::uint64_t kBlock = limits::kBlockBytes;

Layout layout_of(std::uint32_t k, std::uint32_t m, std::uint64_t unit, std::uint64_t size) {
  BlobShape shape;
  shape.k = k;
  shape.m = m;
  shape.unit_bytes = unit;
  shape.size_bytes = size;
  auto layout = Layout::make(shape);
  REQUIRE(layout.has_value());
  return *layout;
}

// Every fragment of the blob as a map: byte of the fragment -> byte of the blob.
constexpr std::uint64_t kNothing = ~std::uint64_t{0};
std::vector<std::vector<std::uint64_t>> fragment_maps(const Layout& layout) {
  std::vector<std::vector<std::uint64_t>> maps;
  for (std::uint32_t slot = 0; slot < layout.shape().slots(); ++slot) {
    maps.emplace_back(layout.fragment_bytes(slot), kNothing);
  }
  return maps;
}

TEST_CASE("shapes that make no sense are refused") {
  const BlobShape rows[] = {{0, 2, kBlock, 1},           {31, 2, kBlock, 1},
                            {4, 2, kBlock + 1, 1},       {4, 2, 0, 1},
                            {4, 2, 8 * limits::kGiB, 1}, {4, 2, kBlock, 5 * limits::kGiB + 1}};
  for (const BlobShape& shape : rows) CHECK(code_of(Layout::make(shape)) == Errc::invalid);
  CHECK(Layout::make({4, 2, kBlock, 5 * limits::kGiB}).has_value());
  CHECK(Layout::make({4294967295u, 2, kBlock, 1}).has_error());
}

TEST_CASE("the worked example of the README") {
  // 4+2, unit 2 MiB, 20 MB: two whole stripes and a tail of 3,222,784 bytes.
  const Layout layout = layout_of(4, 2, 2 << 20, 20'000'000);
  CHECK(layout.stripe_count() == 3);
  CHECK(layout.unit_bytes(0) == 2 << 20);
  CHECK(layout.unit_bytes(2) == 819'200);  // ceil(3,222,784 / 4) = 805,696, up to a block
  CHECK(layout.stored_bytes(2, 0) == 819'200);
  CHECK(layout.stored_bytes(2, 3) == 765'184);
  CHECK(layout.stored_bytes(2, 4) == 819'200);
  CHECK(layout.slot_of_unit(0, 0) == 0);
  CHECK(layout.slot_of_unit(1, 0) == 5);
  CHECK(layout.slot_of_unit(2, 0) == 4);
  const auto run = layout.run_at(10'000'000, 20'000'000);
  CHECK(run.stripe == 1);
  CHECK(run.unit == 0);
  CHECK(run.slot == 5);
  CHECK(run.unit_offset == 1'611'392);
  CHECK(run.fragment_offset == 3'708'544);
  CHECK(run.length == 485'760);
  CHECK(layout.fragment_bytes(1) == 4'194'304 + 765'184);  // unit 3 of the last stripe
}

TEST_CASE("an aligned range of 8 MiB is one whole stripe at 4+2 and at 8+3") {
  const Layout layouts[] = {layout_of(4, 2, 2 << 20, 64 << 20), layout_of(8, 3, 1 << 20, 64 << 20)};
  for (const Layout& layout : layouts) {
    std::uint64_t offset = 24 << 20;
    const std::uint64_t end = 32 << 20;
    std::uint32_t runs = 0;
    while (offset < end) {
      const auto run = layout.run_at(offset, end);
      CHECK(run.stripe == 3);
      CHECK(run.unit == runs);
      CHECK(run.unit_offset == 0);
      offset += run.length;
      ++runs;
    }
    CHECK(runs == layout.shape().k);
  }
}

TEST_CASE("an empty blob has no stripes and empty fragments") {
  const Layout layout = layout_of(4, 2, kBlock, 0);
  CHECK(layout.stripe_count() == 0);
  for (std::uint32_t slot = 0; slot < 6; ++slot) CHECK(layout.fragment_bytes(slot) == 0);
}

TEST_CASE("replicas have the same bytes in every slot") {
  for (const std::uint64_t size : {1ull, 16383ull, 16385ull, 131072ull, 3ull * kBlock + 5}) {
    const Layout layout = layout_of(1, 2, kBlock, size);
    for (std::uint32_t slot = 0; slot < 3; ++slot) CHECK(layout.fragment_bytes(slot) == size);
  }
}

TEST_CASE("slots and units are inverse and every slot carries parity equally often") {
  const Layout layout = layout_of(4, 2, kBlock, 4 * kBlock * 12);
  std::vector<int> parity(6, 0);
  for (std::uint64_t stripe = 0; stripe < 12; ++stripe) {
    for (std::uint32_t slot = 0; slot < 6; ++slot) {
      const std::uint32_t unit = layout.unit_of_slot(stripe, slot);
      CHECK(unit == (slot + stripe) % 6);
      CHECK(layout.slot_of_unit(stripe, unit) == slot);
      if (unit >= 4) ++parity[slot];
    }
  }
  for (const int count : parity) CHECK(count == 4);
}

// The property: walking a range by run_at meets each byte once, in order, at a place of a fragment
// that no other byte has, and the stored lengths are exactly what the walk and the parity need.
TEST_CASE("each byte of a random range of a random blob is found exactly once") {
  std::mt19937_64 random(20'240'517);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 3000; ++round) {
    const auto k = static_cast<std::uint32_t>(1 + below(12));
    const auto m = static_cast<std::uint32_t>(below(5));
    const std::uint64_t unit = kBlock << below(3);
    const std::uint64_t size = 1 + below(below(2) == 0 ? 5 * kBlock : 3 * k * unit);
    const Layout layout = layout_of(k, m, unit, size);
    std::uint64_t offset = below(size);
    const std::uint64_t end = offset + 1 + below(size - offset);
    auto maps = fragment_maps(layout);
    while (offset < end) {
      const auto run = layout.run_at(offset, end);
      REQUIRE(run.blob_offset == offset);
      REQUIRE(run.length > 0);
      REQUIRE(run.unit < k);
      REQUIRE(run.slot == layout.slot_of_unit(run.stripe, run.unit));
      REQUIRE(run.fragment_offset == layout.fragment_offset(run.stripe) + run.unit_offset);
      REQUIRE(run.unit_offset + run.length <= layout.stored_bytes(run.stripe, run.unit));
      REQUIRE(run.fragment_offset + run.length <= maps[run.slot].size());
      // The first and last byte of the run stand for all: runs are checked for overlap below.
      for (std::uint64_t i = 0; i < run.length; i += std::max<std::uint64_t>(1, run.length - 1)) {
        auto& cell = maps[run.slot][run.fragment_offset + i];
        REQUIRE(cell == kNothing);
        cell = offset + i;
      }
      offset += run.length;
    }
    REQUIRE(offset == end);
  }
}

TEST_CASE("fragments hold exactly their units, one after another") {
  std::mt19937_64 random(4711);
  for (int round = 0; round < 3000; ++round) {
    const auto k = static_cast<std::uint32_t>(1 + random() % 12);
    const auto m = static_cast<std::uint32_t>(random() % 5);
    const std::uint64_t unit = kBlock << random() % 3;
    const Layout layout = layout_of(k, m, unit, 1 + random() % (4 * k * unit));
    std::vector<std::uint64_t> lengths(k + m, 0);
    std::uint64_t data_bytes = 0;
    for (std::uint64_t stripe = 0; stripe < layout.stripe_count(); ++stripe) {
      const bool last = stripe + 1 == layout.stripe_count();
      const std::uint64_t unit_bytes = layout.unit_bytes(stripe);
      REQUIRE(unit_bytes % kBlock == 0);
      REQUIRE(unit_bytes <= unit);
      if (!last) REQUIRE(unit_bytes == unit);
      for (std::uint32_t u = 0; u < k + m; ++u) {
        const std::uint32_t slot = layout.slot_of_unit(stripe, u);
        const std::uint64_t stored = layout.stored_bytes(stripe, u);
        REQUIRE(stored <= unit_bytes);
        REQUIRE(layout.fragment_offset(stripe) == lengths[slot]);  // all earlier units are whole
        lengths[slot] += stored;
        if (u < k) data_bytes += stored;
        if (u >= k && k > 1) {
          const std::uint64_t longest = layout.stored_bytes(stripe, 0);
          REQUIRE(stored == (longest + kBlock - 1) / kBlock * kBlock);
        }
        if (u >= k && k == 1) REQUIRE(stored == layout.stored_bytes(stripe, 0));
      }
    }
    REQUIRE(data_bytes == layout.shape().size_bytes);
    for (std::uint32_t slot = 0; slot < k + m; ++slot) {
      REQUIRE(layout.fragment_bytes(slot) == lengths[slot]);
    }
  }
}

}  // namespace
}  // namespace penstock
