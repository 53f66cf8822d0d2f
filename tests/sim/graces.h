// The waits of background work in the simulated world: short, so that all of it happens while
// clients are busy; only uploads wait for a jump of all clocks at the end.
#pragma once
#include <chrono>

#include "penstock/types.h"

namespace penstock::sim::graces {

inline constexpr Duration kHintDelay = std::chrono::seconds(2);
inline constexpr Duration kHintGiveUp = std::chrono::seconds(40);
inline constexpr Duration kLease = std::chrono::seconds(16);
inline constexpr Duration kLeaseFresh = std::chrono::seconds(8);
// Writers learn at once that a volume has started anew.
inline constexpr Duration kStartLease = std::chrono::seconds(4);
inline constexpr Duration kReaderPin = std::chrono::seconds(6);
inline constexpr Duration kReaderPinEvery = std::chrono::seconds(1);
inline constexpr Duration kRollForwardAfter = std::chrono::seconds(5);
inline constexpr Duration kTombstoneWait = std::chrono::seconds(6);
// Longer than all jumps of clocks under way, which would end uploads that clients still use.
inline constexpr Duration kUploadEnd = std::chrono::hours(100);

}  // namespace penstock::sim::graces
