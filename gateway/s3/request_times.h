// Where the time of one request goes, for clients that ask with `x-penstock-timing: 1`; they get it
// as Server-Timing. Others have no RequestTimes, and pay for nothing.
//
// The phases do not overlap: what one waits for within another counts for the inner one.
// Thread-safety: none; one request.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/runtime.h"

namespace penstock {

// record: what is neither of the others: mostly rounds on records, also of buckets, and lists.
// data: bodies: of an upload, until they are durable, the client's own pauses included; of a
// download, until the first bytes are there. queue: waits for memory, or for a turn to list.
enum class Phase : std::uint8_t { auth, record, data, queue };
inline constexpr std::array<std::string_view, 4> kPhaseNames{"auth", "record", "data", "queue"};

struct RequestTimes {
  std::array<Duration, kPhaseNames.size()> spent{};
  Duration total() const {
    Duration sum{};
    for (const Duration& one : spent) sum += one;
    return sum;
  }
  // The value of Server-Timing: milliseconds with three decimals.
  std::string header() const;
};

// Adds the time of its scope to a phase, less what inner scopes took.
class PhaseTimer {
 public:
  PhaseTimer(RequestTimes* times, const Clock& clock, Phase phase)
      : times_(times), clock_(clock), phase_(phase) {
    if (times_ == nullptr) return;
    began_ = clock_.boot();
    before_ = times_->total();
  }
  ~PhaseTimer() {
    if (times_ == nullptr) return;
    const Duration inner = times_->total() - before_;
    const Duration own = clock_.boot() - began_ - inner;
    times_->spent[static_cast<std::size_t>(phase_)] += std::max(own, Duration::zero());
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  RequestTimes* const times_;
  const Clock& clock_;
  const Phase phase_;
  BootTime began_{};
  Duration before_{};
};

}  // namespace penstock
