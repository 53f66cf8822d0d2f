// When the requests of an open loop are meant to begin: one after another at a fixed rate, whatever
// the server does. Latency counts from there, so a server that stalls pays for every request that
// should have been sent meanwhile.
// A pure function of the request's number. A closed loop has no pace: its rate is 0.
#pragma once
#include <cmath>
#include <cstdint>

#include "gateway/bench/bench_clock.h"

namespace penstock {

class RequestPace {
 public:
  RequestPace() = default;
  // Pre: `per_second` >= 0.
  RequestPace(double per_second, BenchTime start) : per_second_(per_second), start_(start) {}
  bool is_open() const { return per_second_ > 0; }
  // Pre: is_open().
  BenchTime intended(std::uint64_t number) const {
    const double us = std::floor(static_cast<double>(number) * 1e6 / per_second_);
    return start_ + Duration(static_cast<std::int64_t>(us));
  }
  // How many are meant to have begun before `time`.
  std::uint64_t due(BenchTime time) const {
    if (time <= start_) return 0;
    return static_cast<std::uint64_t>(
        std::ceil(static_cast<double>((time - start_).count()) * per_second_ / 1e6));
  }

 private:
  double per_second_ = 0;
  BenchTime start_{};
};

}  // namespace penstock
