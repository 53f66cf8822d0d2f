// How fast a job goes, and what it tells of its way: so many steps a second, a line in the log from
// time to time. Thread-safety: one executor.
#pragma once
#include <string>

#include "server/background/background_context.h"

namespace penstock {

class Pace {
 public:
  explicit Pace(const BackgroundContext& context);
  // Waits for the next step's time. False: the process stops.
  Awaitable<bool> turn();

 private:
  Clock& clock_;
  std::shared_ptr<std::atomic<bool>> stopping_;
  Duration interval_;
  BootTime next_{};
};

// What, done, total, rate: at most twice a minute while it goes on, and once at its end if it took
// long enough to be told.
class Progress {
 public:
  Progress(Clock& clock, std::string what, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(std::uint64_t count = 1);

 private:
  void tell(BootTime now);
  Clock& clock_;
  std::string what_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  BootTime began_;
  BootTime told_;
  bool was_told_ = false;
};

}  // namespace penstock
