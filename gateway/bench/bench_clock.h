// The time that is measured with: monotonic, in microseconds.
#pragma once
#include <chrono>

#include "penstock/types.h"

namespace penstock {

using BenchTime = std::chrono::time_point<std::chrono::steady_clock, Duration>;
inline BenchTime bench_now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

}  // namespace penstock
