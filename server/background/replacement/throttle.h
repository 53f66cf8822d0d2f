// So much a second, and no more. Thread-safety: one executor.
#pragma once
#include <algorithm>

#include "penstock/runtime.h"

namespace penstock {

class Throttle {
 public:
  Throttle(Clock& clock, double per_second) : clock_(clock), per_second_(per_second) {}
  // Waits until `amount` more may be done: until all before it is paid for.
  Awaitable<void> wait(double amount) {
    const BootTime now = clock_.boot();
    const BootTime begin = std::max(next_, now);
    next_ = begin + Duration(static_cast<Duration::rep>(amount * 1e6 / per_second_));
    if (begin > now) co_await clock_.sleep_until(begin);
  }

 private:
  Clock& clock_;
  const double per_second_;
  BootTime next_{};
};

}  // namespace penstock
