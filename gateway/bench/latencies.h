// How long requests took, for percentiles. LatencyHistogram has bounds for Prometheus, too few to
// read a percentile from; here a value is at most 1.6 % above what was recorded.
// Shape: microseconds; 64 buckets for each doubling; 15 KiB, whatever is recorded.
// Thread-safety: one thread records; merge them when all are done.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "penstock/types.h"

namespace penstock {

class Latencies {
 public:
  void record(Duration took, std::uint64_t times = 1) {
    if (times == 0) return;
    const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 0));
    buckets_[bucket_of(us)] += times;
    count_ += times;
    max_us_ = std::max(max_us_, us);
  }
  Latencies& operator+=(const Latencies& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    max_us_ = std::max(max_us_, other.max_us_);
    return *this;
  }
  std::uint64_t count() const { return count_; }
  std::uint64_t max_us() const { return max_us_; }
  // The smallest bound that the share `part` (0 … 1) of all values does not pass; 0 without values.
  std::uint64_t percentile_us(double part) const {
    const double wanted = part * static_cast<double>(count_);
    double seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += static_cast<double>(buckets_[i]);
      if (buckets_[i] > 0 && seen >= wanted) return std::min(upper_bound_us(i), max_us_);
    }
    return max_us_;
  }

 private:
  static constexpr std::uint64_t kFine = 64;  // buckets a doubling; below it each value has its own
  static constexpr std::size_t kBuckets = 64 * 31;  // up to 2^36 us; the last: above all
  static std::size_t bucket_of(std::uint64_t us) {
    if (us < kFine) return static_cast<std::size_t>(us);
    const auto doubling = static_cast<std::size_t>(std::bit_width(us)) - 7;  // 0: 64 … 127
    return std::min(kBuckets - 1, static_cast<std::size_t>((us >> doubling) + kFine * doubling));
  }
  static std::uint64_t upper_bound_us(std::size_t bucket) {
    if (bucket < 2 * kFine) return bucket;
    const std::size_t doubling = bucket / kFine - 1;
    return ((bucket % kFine + kFine + 1) << doubling) - 1;
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_us_ = 0;
};

}  // namespace penstock
