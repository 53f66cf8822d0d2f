// Which volumes deliver bytes far later than the others do: a disk or a link that answers
// everything, but slowly. Judged in windows of time, against the other volumes of the same window,
// so that a busy machine, where all are late, makes nobody slow. Pure.
// Thread-safety: none.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/types.h"

namespace penstock {

inline constexpr std::chrono::milliseconds kLateTransfer{40};  // more is late, beside its bytes
inline constexpr std::uint64_t kSlowBytesPerMicrosecond = 16;  // ... at this rate: a slow disk's
inline constexpr std::chrono::milliseconds kSyncTime{200};     // a commit may take so much more
inline constexpr std::chrono::seconds kPaceWindow{1};          // in which volumes are compared
inline constexpr std::chrono::seconds kPaceWindowMax{10};      // ... if there is little to compare
inline constexpr std::uint64_t kPaceBytesMin = 64 << 10;       // of a volume: fewer tell nothing
inline constexpr int kSlowAfterWindows = 3;    // late ones in a row: a pause of a machine is none
inline constexpr int kTimelyAfterWindows = 5;  // that make a slow one as good as any
inline constexpr std::chrono::seconds kSlowReadEvery{1};   // of a slow one, beside its columns
inline constexpr std::uint64_t kSlowReadBytes = 64 << 10;  // ... of so much: less passes any queue
inline constexpr std::chrono::seconds kSlowForgotten{30};  // without bytes: it may be well again

// Is a transfer of so many bytes late if it took so long?
inline bool is_late_transfer(std::uint64_t bytes, Duration took) {
  const auto of_bytes = static_cast<Duration::rep>(bytes / kSlowBytesPerMicrosecond);
  return took > Duration(kLateTransfer) + Duration(of_bytes);
}

struct VolumePace {
  // ---- of the window that ends
  std::uint64_t bytes = 0;  // that were delivered
  std::uint64_t late = 0;   // of these, by transfers that were late
  bool lost = false;        // closed, or suspect for another reason
  // ---- from window to window
  bool slow = false;
  int windows = 0;   // that speak for the contrary of `slow`
  BootTime heard{};  // when it last had bytes
};

// Has the window bytes enough of three volumes, so that one can be told from the others?
bool tells_paces(const std::vector<VolumePace>& volumes);

// Ends a window at `now`: sets `slow` and what goes from window to window, of all volumes of a map.
// A volume is slow after kSlowAfterWindows in which half of its bytes or more were late, and four
// times the share of the others' median. It is not any more after kTimelyAfterWindows without that,
// beyond those with it, or when nothing was heard of it for kSlowForgotten. Slow ones and lost ones
// are never more than a third of all together.
void judge_paces(std::vector<VolumePace>& volumes, BootTime now);

}  // namespace penstock
