// A clock that is ahead of another one: of its wall time, or of the time since the boot.
// Thread-safety: as the other one; `boot_ahead` is set while nobody sleeps.
#pragma once
#include "penstock/runtime.h"

namespace penstock {

class ClockAhead final : public Clock {
 public:
  explicit ClockAhead(Clock& of, Duration wall_ahead = {}) : of_(of), wall_ahead_(wall_ahead) {}
  Duration boot_ahead{};

  WallTime wall() const override { return of_.wall() + wall_ahead_; }
  BootTime boot() const override { return of_.boot() + boot_ahead; }
  Awaitable<void> sleep_until(BootTime when) override { return of_.sleep_until(when - boot_ahead); }

 private:
  Clock& of_;
  const Duration wall_ahead_;
};

}  // namespace penstock
