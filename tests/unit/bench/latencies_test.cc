#include "gateway/bench/latencies.h"

#include <doctest/doctest.h>

#include <memory>

namespace penstock {
namespace {

TEST_CASE("a percentile is at most a sixtieth above what was recorded, and never below it") {
  for (std::int64_t us = 1; us < 40'000'000; us = us * 7 / 5 + 1) {
    const auto latencies = std::make_unique<Latencies>();
    latencies->record(Duration(us));
    latencies->record(Duration(us * 4));  // so that the largest does not bound it
    const auto told = static_cast<double>(latencies->percentile_us(0.5));
    CHECK(told >= static_cast<double>(us));
    CHECK(told <= static_cast<double>(us) * (1 + 1.0 / 60) + 1);
  }
}

TEST_CASE("percentiles count values, and the last one is the largest") {
  Latencies latencies;
  CHECK(latencies.percentile_us(0.99) == 0);
  for (std::int64_t us = 1; us <= 60; ++us) latencies.record(Duration(us));
  CHECK(latencies.percentile_us(0.5) == 30);
  CHECK(latencies.percentile_us(1) == 60);
  CHECK(latencies.count() == 60);
}

TEST_CASE("what is merged counts as if it had been recorded in one place") {
  Latencies one, other;
  for (int i = 0; i < 90; ++i) one.record(Duration(10));
  for (int i = 0; i < 10; ++i) other.record(Duration(5'000'000));
  one += other;
  CHECK(one.count() == 100);
  CHECK(one.percentile_us(0.9) == 10);
  CHECK(one.percentile_us(0.99) == 5'000'000);
  CHECK(one.max_us() == 5'000'000);
}

TEST_CASE("what is recorded several times counts so often") {
  Latencies once, often;
  for (int i = 0; i < 7; ++i) once.record(Duration(500));
  often.record(Duration(500), 7);
  often.record(Duration(900), 0);
  CHECK(often.count() == once.count());
  CHECK(often.max_us() == once.max_us());
  CHECK(often.percentile_us(0.5) == once.percentile_us(0.5));
}

TEST_CASE("a value above all buckets is told as the largest") {
  Latencies latencies;
  latencies.record(std::chrono::hours(48));
  CHECK(latencies.max_us() == 172'800'000'000);
  latencies.record(Duration(-5));
  CHECK(latencies.percentile_us(0.5) == 0);
}

}  // namespace
}  // namespace penstock
