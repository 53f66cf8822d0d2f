// Which volumes deliver bytes far later than the others do: a disk or a link that answers
// everything, but slowly. Judged in windows of time, against the other volumes of the same window,
// so that a busy machine, where all are late, makes nobody slow. Pure.
// Thread-safety: none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/limits.h"
#include "penstock/types.h"

namespace penstock {

// Is a transfer of so many bytes late if it took so long?
inline bool is_late_transfer(std::uint64_t bytes, Duration took) {
  const auto of_bytes = static_cast<Duration::rep>(bytes / limits::kSlowBytesPerMicrosecond);
  return took > Duration(limits::kLateTransfer) + Duration(of_bytes);
}

struct VolumePace {
  // ---- of the window that ends
  std::uint64_t bytes = 0;  // that were delivered
  std::uint64_t late = 0;   // of these, by transfers that were late
  bool lost = false;        // closed, or suspect for another reason
  // ---- from window to window
  bool slow = false;
  int windows = 0;   // in a row that speak for the contrary of `slow`
  BootTime heard{};  // when it last had bytes
};

// Has the window bytes enough of three volumes, so that one can be told from the others?
bool tells_paces(const std::vector<VolumePace>& volumes);

// Ends a window at `now`: sets `slow` and what goes from window to window, of all volumes of a map.
// A volume is slow after limits::kSlowAfterWindows in which half of its bytes or more were late, and
// four times the share of the others' median. It is not any more after limits::kTimelyAfterWindows
// without that, or when nothing was heard of it for limits::kSlowForgotten. Slow ones and lost ones
// are never more than a third of all together.
void judge_paces(std::vector<VolumePace>& volumes, BootTime now);

}  // namespace penstock
