// How fast a job goes, and what it tells of its way: so many steps a second, figures on the status
// board, a line in the log from time to time. Thread-safety: one executor.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "server/background/removal/background_context.h"

namespace penstock {

class Pace {
 public:
  explicit Pace(const BackgroundContext& context);
  // Waits for the next step's time, each caller for one of its own. False: the process stops.
  Awaitable<bool> turn();

 private:
  Clock& clock_;
  std::shared_ptr<std::atomic<bool>> stopping_;
  Duration interval_;
  BootTime next_{};
};

// What, done, total, rate of one pass of a job. On the board after each step; in the log at most
// twice a minute while it goes on, and once at its end if it took long.
class Progress {
 public:
  // `total`: 0 if it is not known before the end.
  Progress(const BackgroundContext& context, std::string what, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(std::uint64_t count = 1);

 private:
  JobProgress figures(BootTime now) const;
  void show(BootTime now, bool ended);
  void tell(BootTime now);
  Clock& clock_;
  std::shared_ptr<StatusBoard> board_;
  std::string what_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  BootTime began_;
  BootTime told_;
  bool was_told_ = false;
};

}  // namespace penstock
