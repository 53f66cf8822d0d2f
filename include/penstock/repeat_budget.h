// One line a second of what is said again and again. Thread-safety: any thread.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "penstock/types.h"

namespace penstock {

// For lines that say the same again and again while something is broken. What is said for the first
// time in a while, as a change of state, is written at once; what is said again, one line a second
// of all of it.
class RepeatBudget {
 public:
  static constexpr std::chrono::seconds kForgets{60};  // then it is news again

  // Beyond `keys_max` at a time all that is new counts as said before.
  explicit RepeatBudget(std::size_t keys_max) : keys_max_(keys_max) {}

  // nullopt: the line is left out. Else how many were since the last one.
  std::optional<std::uint64_t> take(BootTime now, const std::string& key) {
    const auto second =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    const std::lock_guard lock(mutex_);
    const bool is_new = is_news(second, key);
    if (!is_new && second == last_) {
      ++left_out_;
      return std::nullopt;
    }
    if (!is_new) last_ = second;
    return std::exchange(left_out_, 0);
  }

 private:
  bool is_news(std::int64_t second, const std::string& key) {
    const auto known = said_.find(key);
    const bool is_known = known != said_.end();
    if (is_known && second >= known->second && second - known->second < kForgets.count()) {
      known->second = second;
      return false;
    }
    if (!is_known && said_.size() >= keys_max_) {
      std::erase_if(said_,
                    [second](const auto& one) { return second - one.second >= kForgets.count(); });
      if (said_.size() >= keys_max_) return false;
    }
    said_[key] = second;
    return true;
  }

  const std::size_t keys_max_;
  std::mutex mutex_;                          // guards what follows
  std::map<std::string, std::int64_t> said_;  // when it was said last, written or not
  std::int64_t last_ = -1;                    // when a repeat was written
  std::uint64_t left_out_ = 0;
};

}  // namespace penstock
