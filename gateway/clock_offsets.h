// How far clocks are apart, as one process finds them: what /readyz says of it. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "penstock/types.h"

namespace penstock {

// The clock of a server less that of this process.
struct ClockOffset {
  std::string address;
  Duration offset{};
};

struct ClockReport {
  // This process's clock less what most servers' clocks say; nullopt: no server has told its time.
  std::optional<Duration> own;
  std::vector<ClockOffset> peers;  // the other servers, each less this process's clock

  // The same of one of them, less what most say. Pre: own.
  Duration apart(const ClockOffset& peer) const { return peer.offset + *own; }
};

// By the median of the servers; of two in the middle that nearer to this process's clock: nobody is
// accused by one server alone. `is_server`: this process is one more of them.
ClockReport judge_clocks(std::vector<ClockOffset> peers, bool is_server);

// A line for each clock that is off by more than limits::kClockOff; none: all is well.
std::string clock_lines(const ClockReport& report);

}  // namespace penstock
