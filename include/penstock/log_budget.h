// So many lines a second: a storm of failures must not fill the disk. What the log leaves out, the
// metrics count. Thread-safety: any thread.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "penstock/types.h"

namespace penstock {

class LogBudget {
 public:
  explicit LogBudget(int lines_per_second) : lines_per_second_(lines_per_second) {}
  // May one more line be written now?
  bool take(BootTime now) {
    const auto second =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    if (second_.exchange(second) != second) lines_.store(0);
    return lines_.fetch_add(1) < lines_per_second_;
  }

 private:
  const int lines_per_second_;
  std::atomic<std::int64_t> second_{0};
  std::atomic<int> lines_{0};
};

}  // namespace penstock
