// How a server that stops lets its connections end: each as soon as nothing is under way on it, all
// of them when its patience is over.
// Thread-safety: as the functions of the parts say.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>

#include "penstock/planted.h"
#include "penstock/runtime.h"

namespace penstock {

// Ownership: borrows the clock until the drain has ended.
struct DrainParts {
  Clock& clock;
  std::function<std::size_t()> count;  // of the connections that have not ended
  std::function<void()> close_idle;    // those on which nothing is under way end soon
  std::function<void()> close_all;
};

// Until all have ended, at most `grace` and a second.
inline Awaitable<void> close_and_drain(DrainParts parts, Duration grace) {
  constexpr Duration kLook = std::chrono::milliseconds(10);
  constexpr Duration kEndPatience = std::chrono::seconds(1);  // for connections that were closed
  Clock& clock = parts.clock;
  const BootTime until = clock.boot() + grace;
  while (parts.count() > 0 && clock.boot() < until && holds(Rule::drained_calls)) {
    parts.close_idle();
    co_await clock.sleep_until(clock.boot() + kLook);
  }
  parts.close_all();
  const BootTime ended = clock.boot() + kEndPatience;
  while (parts.count() > 0 && clock.boot() < ended) {
    co_await clock.sleep_until(clock.boot() + kLook);
  }
}

}  // namespace penstock
