// Which calls of one volume's disk are under way, and since when. Only another thread can notice a
// call that does not return. Whoever looks makes no call of the disk itself.
// Thread-safety: all methods from any thread; none blocks on the disk.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "penstock/latency.h"
#include "penstock/limits.h"
#include "penstock/runtime.h"
#include "server/volume/disk/disk.h"

namespace penstock {

class DiskWatch {
 public:
  // Looks further apart than this: the process or the machine stood still in between.
  static constexpr Duration kPause = 10 * limits::kDiskLook;

  explicit DiskWatch(Clock& clock) : clock_(clock), looked_(count(clock)) {}

  // One call, from its begin to its end. With all places taken it goes unseen.
  class Call {
   public:
    Call(DiskWatch& watch, const char* name);
    ~Call();
    // As of now.
    Duration age() const { return Duration(count(watch_.clock_) - began_at_); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    DiskWatch& watch_;
    const BootTime::rep began_at_;
    std::atomic<BootTime::rep>* began_ = nullptr;
  };

  struct Oldest {
    const char* call = "";
    Duration age{};
  };
  // The oldest call under way; remembers whether one is late. A pause adds nothing to the age of a
  // call: a process that did not run (SIGSTOP, a machine that slept) cannot say that a disk hung.
  std::optional<Oldest> look();
  // As of the last look: a call is under way for longer than limits::kDiskLate.
  bool late() const { return late_.load(std::memory_order_relaxed); }

  // How long syncs took that have returned, of files and directories.
  LatencyHistogram& syncs() { return syncs_; }

  // The disk hangs: no call is made any more, each answers `unavailable` at once.
  void close() { closed_.store(true, std::memory_order_release); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  struct alignas(64) Place {              // of one thread, as a rule
    std::atomic<BootTime::rep> began{0};  // 0 = free
    std::atomic<const char*> name{""};
  };
  static BootTime::rep count(Clock& clock) { return clock.boot().time_since_epoch().count(); }

  void leave_out_pause(BootTime::rep before, BootTime::rep now);

  Clock& clock_;
  LatencyHistogram syncs_;
  std::mutex look_mutex_;  // one look at a time
  BootTime::rep looked_;   // the last one
  std::array<Place, limits::kDiskCallsWatched> places_;
  std::atomic<bool> late_{false};
  std::atomic<bool> closed_{false};
};

// Puts each call of `disk`, and of the files it opens, under the watch. Belongs next to the disk
// itself, below ballast and latch.
std::unique_ptr<Disk> make_watched_disk(std::unique_ptr<Disk> disk,
                                        std::shared_ptr<DiskWatch> watch);

}  // namespace penstock
