// So many lines a second: a storm of failures must not fill the disk. What the log leaves out, the
// metrics count. Thread-safety: any thread.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

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

// The same for lines that tell a reason: beyond the budget each of some reasons is told once a
// second, so that one who comes again and again does not hide why another one is refused.
class ReasonBudget {
 public:
  ReasonBudget(int lines_per_second, std::size_t reasons_max)
      : lines_(lines_per_second), reasons_max_(reasons_max) {}

  bool take(BootTime now, const std::string& reason) {
    const auto second =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    const std::lock_guard lock(mutex_);
    if (std::exchange(second_, second) != second) told_.clear();
    const bool is_first = told_.size() < reasons_max_ && told_.insert(reason).second;
    return lines_.take(now) || is_first;
  }

 private:
  LogBudget lines_;
  const std::size_t reasons_max_;
  std::mutex mutex_;  // guards the next two
  std::int64_t second_ = 0;
  std::set<std::string> told_;
};

}  // namespace penstock
