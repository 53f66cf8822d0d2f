#include "gateway/memory_shares.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

using limits::kGiB;
using limits::kMiB;

std::size_t sum_of(const MemoryShares& shares) {
  std::size_t sum = 0;
  for (const auto& [part, bytes] : shares.parts()) sum += bytes;
  return sum;
}

TEST_CASE("The parts are the whole ceiling, whatever it is and whoever shares it") {
  for (const std::size_t ceiling : {128 * kMiB, 512 * kMiB, 513 * kMiB + 1, 16 * kGiB}) {
    for (const std::size_t volumes : {0, 1, 6, 12}) {
      for (const std::size_t connections : {0, 1, 1'000, 10'000, 1'000'000}) {
        const auto shares = share_memory(ceiling, volumes, {connections});
        REQUIRE(shares);
        CAPTURE(ceiling);
        CAPTURE(volumes);
        // What is left of a division by the volumes belongs to the bodies.
        CHECK(sum_of(*shares) == ceiling);
        CHECK(shares->bodies >= 32 * kMiB);
        CHECK(shares->connections <= connections);
        CHECK(shares->connection_bytes <= ceiling / 5);
      }
    }
  }
}

TEST_CASE("Six volumes and 10,000 connections in 512 MiB: as the page says") {
  const auto shares = share_memory(512 * kMiB, 6, {10'000});
  REQUIRE(shares);
  CHECK(shares->connections == 10'000);
  CHECK(memory_line(*shares) ==
        "memory: 512 MiB at most: process 32, connections 98, bodies 171, volumes 212\n");
  CHECK(memory_line(*share_memory(512 * kMiB, 0, {10'000})) ==
        "memory: 512 MiB at most: process 32, connections 98, bodies 383\n");
}

TEST_CASE("Too little memory is refused with what would be enough; little lets fewer in") {
  const auto many = share_memory(256 * kMiB, 64, {10'000});
  CHECK(code_of(many) == Errc::invalid);
  CHECK(many.error().context ==
        "memory is 256 MiB: 64 volumes need at least 321 MiB (\"memory\" in --config)");
  CHECK(share_memory(512 * kMiB, 64, {10'000}));
  CHECK(share_memory(321 * kMiB, 64, {10'000}));
  CHECK_FALSE(share_memory(319 * kMiB, 64, {10'000}));
  CHECK(share_memory(103 * kMiB, 6, {10'000}));
  CHECK(code_of(share_memory(1, 6, {10})) == Errc::invalid);
  CHECK(share_memory(83 * kMiB, 6, {10}));
  const auto fewer = share_memory(128 * kMiB, 6, {10'000});
  REQUIRE(fewer);
  CHECK(fewer->connections == 128 * kMiB / 5 / limits::kConnectionBytes);
}

TEST_CASE("A ceiling that nobody names is 512 MiB or less") {
  CHECK(default_memory() >= limits::kMemoryMin);
  CHECK(default_memory() <= limits::kMemoryDefault);
  const auto shares = share_memory(0, 6, {1'000});
  REQUIRE(shares);
  CHECK(shares->ceiling == default_memory());
  const auto many = share_memory(0, 1'000, {10'000});
  REQUIRE(many);
  CHECK(many->ceiling > 3'000 * kMiB);
}

}  // namespace
}  // namespace penstock
