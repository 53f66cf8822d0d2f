#include "gateway/clock_offsets.h"

#include <algorithm>
#include <chrono>

#include "penstock/limits.h"

namespace penstock {
namespace {

Duration size_of(Duration offset) { return offset < Duration{} ? -offset : offset; }

// Pre: not empty.
Duration median(std::vector<Duration> offsets) {
  std::sort(offsets.begin(), offsets.end());
  const Duration upper = offsets[offsets.size() / 2];
  const Duration lower = offsets[(offsets.size() - 1) / 2];
  return size_of(lower) < size_of(upper) ? lower : upper;
}

std::string off_by(Duration offset) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(size_of(offset)).count();
  return std::to_string(seconds) + " s " + (offset < Duration{} ? "behind" : "ahead of");
}

}  // namespace

ClockReport judge_clocks(std::vector<ClockOffset> peers, bool is_server) {
  ClockReport report;
  if (peers.empty()) return report;
  std::vector<Duration> offsets;
  for (const ClockOffset& peer : peers) offsets.push_back(peer.offset);
  if (is_server) offsets.emplace_back();
  report.own = -median(std::move(offsets));
  report.peers = std::move(peers);
  return report;
}

std::string clock_lines(const ClockReport& report) {
  if (!report.own) return "";
  std::string lines;
  if (size_of(*report.own) > limits::kClockOff) {
    lines += "clock: " + off_by(*report.own) +
             " the other servers': set it; dates of objects and the ages of uploads go by it\n";
  }
  for (const ClockOffset& peer : report.peers) {
    const Duration apart = report.apart(peer);
    if (size_of(apart) <= limits::kClockOff) continue;
    lines += "clock of " + peer.address + ": " + off_by(apart) + " the other servers'\n";
  }
  return lines;
}

}  // namespace penstock
