// How long whoever was answered `overloaded` waits before he asks again: a little, and not as long
// as the others who were. Thread-safety: pure functions.
#pragma once
#include <chrono>
#include <cstdint>

#include "penstock/types.h"

namespace penstock {

struct BusyRange {
  std::chrono::milliseconds least;
  std::chrono::milliseconds most;
};
// For bytes of a fragment, whose volume gets through many such calls in a moment.
inline constexpr BusyRange kBusyBytes{std::chrono::milliseconds(4), std::chrono::milliseconds(12)};
// For a round, in which several volumes are asked.
inline constexpr BusyRange kBusyRound{std::chrono::milliseconds(20),
                                      std::chrono::milliseconds(100)};
// ... so long that it is no moment any more: somebody else is asked instead, where there is.
inline constexpr std::chrono::seconds kBusyPatience{1};

// `chance`: differs from caller to caller and from time to time.
inline Duration busy_pause(std::uint64_t chance, BusyRange range = kBusyBytes) {
  const Duration least = range.least;
  const auto spread = static_cast<std::uint64_t>((Duration(range.most) - least).count());
  return least + Duration(static_cast<Duration::rep>(mix_hash(chance) % spread));
}

}  // namespace penstock
