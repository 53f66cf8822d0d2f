// Mutexes that say how often somebody had to wait for them: what many cores would wait for shows on
// two. A lock that is free costs what it costs without being counted.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace penstock {

// What the locks of warm requests guard.
enum class LockName : std::uint8_t {
  buffers,    // memory for bodies, a thread's own and what all share
  registers,  // of one volume: a part of its cached rows, by key
  acceptor,   // of one volume: what it has promised and accepted
  log,        // of one volume: which files its log has
  fragments,  // of one volume: tables of fragments read last
  updates,    // keys that are written now, of a part of all keys
  rounds,     // accepts that their rounds have left behind
};
inline constexpr std::array<std::string_view, 7> kLockNames{
    "buffers", "registers", "acceptor", "log", "fragments", "updates", "rounds"};

// How often a lock of this name was not free, in this process.
inline std::atomic<std::uint64_t>& lock_waits(LockName name) {
  struct alignas(64) Padded {
    std::atomic<std::uint64_t> count{0};
  };
  static std::array<Padded, kLockNames.size()> waits;
  return waits[static_cast<std::size_t>(name)].count;
}

// As std::mutex.
class CountedMutex {
 public:
  explicit CountedMutex(LockName name) : name_(name) {}
  void lock() {
    if (mutex_.try_lock()) return;
    lock_waits(name_).fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  const LockName name_;
};
using CountedLock = std::lock_guard<CountedMutex>;

}  // namespace penstock
