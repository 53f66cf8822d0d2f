// By when a call is over, and on whose behalf it is made.
//
// Whoever hands its deadline on hands the name of its request on as well; so the servers that a
// request asks can name it in their logs. A deadline that is made of a time alone names nobody, as
// background work does. Values; comparison is that of the times.
#pragma once
#include <array>
#include <chrono>
#include <compare>
#include <cstdint>

namespace penstock {

// Wall time may jump and is only shown to people and used for ballots. Boot time never goes back
// and bounds every wait and lease.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;
using BootTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::microseconds>;
using Duration = std::chrono::microseconds;

// The request that a call belongs to, for logs. Nothing is decided by it.
struct Trace {
  std::uint64_t request = 0;             // x-amz-request-id as a number; 0: of no request
  std::array<std::uint64_t, 2> trace{};  // W3C trace id, high first; zeros: the client gave none
  bool operator==(const Trace&) const = default;
  bool is_zero() const { return request == 0; }
};

class Deadline {
 public:
  constexpr Deadline() = default;
  constexpr Deadline(BootTime at) : at_(at) {}  // NOLINT: a time is a deadline of nobody
  constexpr Deadline(BootTime at, Trace trace) : at_(at), trace_(trace) {}
  static constexpr Deadline max() { return BootTime::max(); }
  static constexpr Deadline min() { return BootTime::min(); }

  constexpr operator BootTime() const { return at_; }  // NOLINT: it is one
  constexpr BootTime at() const { return at_; }
  constexpr const Trace& trace() const { return trace_; }
  // Another time on behalf of the same request.
  constexpr Deadline moved_to(BootTime at) const { return {at, trace_}; }
  // The same, if that is earlier.
  constexpr Deadline capped(BootTime at) const { return {at < at_ ? at : at_, trace_}; }

  friend constexpr bool operator==(const Deadline& a, const Deadline& b) { return a.at_ == b.at_; }
  friend constexpr auto operator<=>(const Deadline& a, const Deadline& b) {
    return a.at_ <=> b.at_;
  }
  friend constexpr Duration operator-(const Deadline& a, const Deadline& b) {
    return a.at_ - b.at_;
  }

 private:
  BootTime at_{};
  Trace trace_;
};

}  // namespace penstock
