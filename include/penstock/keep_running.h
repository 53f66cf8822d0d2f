// Loops that a process cannot do without: who accepts connections, keeps them up, follows the map.
// What one of them throws (memory that is not to be had, most of all) ends one turn of it; it is
// begun again. Without this the process would stand there as if it were well.
// Thread-safety: one executor.
#pragma once
#include <chrono>
#include <exception>

#include "penstock/caught.h"
#include "penstock/runtime.h"

namespace penstock {

inline constexpr Duration kKeepRunningPause = std::chrono::milliseconds(100);

// Runs what `make()`, an Awaitable<void>, returns, until one of them ends by itself; one that
// throws is reported, and after a pause the next one is made. It finds what the last one left:
// whoever writes such a loop puts that in order first. Ownership: borrows `clock` and `where`.
template <class Make>
Awaitable<void> keep_running(Clock& clock, const char* where, Make make) {
  while (true) {
    try {
      co_await make();
      co_return;
    } catch (...) {
      report_exception(where);
    }
    try {
      co_await clock.sleep_until(clock.boot() + kKeepRunningPause);
    } catch (...) {
      report_exception(where);  // no memory for that, either: at once, then
    }
  }
}

}  // namespace penstock
