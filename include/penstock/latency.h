// How long things took: counts by duration, for a histogram of Prometheus.
// Thread-safety: any thread; relaxed atomics, so that recording costs two additions.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "penstock/types.h"

namespace penstock {

class LatencyHistogram {
 public:
  // Upper bounds in microseconds: from a cached GET to a Complete of 10,000 parts.
  static constexpr std::array<std::int64_t, 16> kBoundsUs = {
      100,    250,     500,     1'000,   2'500,     5'000,     10'000,     25'000,
      50'000, 100'000, 250'000, 500'000, 1'000'000, 5'000'000, 10'000'000, 30'000'000};
  static constexpr std::size_t kBuckets = kBoundsUs.size() + 1;  // the last: above all

  struct Counts {
    std::array<std::uint64_t, kBuckets> buckets{};  // not cumulative
    std::uint64_t microseconds = 0;
    std::uint64_t count() const {
      std::uint64_t sum = 0;
      for (const std::uint64_t bucket : buckets) sum += bucket;
      return sum;
    }
    Counts& operator+=(const Counts& other) {
      for (std::size_t i = 0; i < kBuckets; ++i) buckets[i] += other.buckets[i];
      microseconds += other.microseconds;
      return *this;
    }
  };

  void record(Duration took) {
    const std::int64_t us = std::max<std::int64_t>(took.count(), 0);
    const auto* bound = std::lower_bound(kBoundsUs.begin(), kBoundsUs.end(), us);
    buckets_[static_cast<std::size_t>(bound - kBoundsUs.begin())].fetch_add(
        1, std::memory_order_relaxed);
    microseconds_.fetch_add(static_cast<std::uint64_t>(us), std::memory_order_relaxed);
  }
  Counts counts() const {
    Counts counts;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    }
    counts.microseconds = microseconds_.load(std::memory_order_relaxed);
    return counts;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<std::uint64_t> microseconds_{0};
};

}  // namespace penstock
