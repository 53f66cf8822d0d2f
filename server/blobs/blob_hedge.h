// How many extra reads a process may send because a volume is late: 5 % of its reads, so that slow
// disks are not made slower by impatience. Each read earns a twentieth of an extra one.
// Thread-safety: any thread.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace penstock {

inline constexpr std::chrono::milliseconds kHedgeAfter{20};  // a read is not late before this

class HedgeBudget {
 public:
  void earn() {
    if (credit_.load(std::memory_order_relaxed) < kCreditMax) {
      credit_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // May `reads` extra reads be sent? Pays for them if so.
  bool spend(std::int64_t reads) {
    std::int64_t credit = credit_.load(std::memory_order_relaxed);
    do {
      if (credit < reads * kReadsPerExtra) return false;
    } while (!credit_.compare_exchange_weak(credit, credit - reads * kReadsPerExtra));
    return true;
  }

 private:
  static constexpr std::int64_t kReadsPerExtra = 20;
  static constexpr std::int64_t kCreditMax = 128 * kReadsPerExtra;  // a burst of extra reads
  std::atomic<std::int64_t> credit_{kCreditMax};
};

}  // namespace penstock
