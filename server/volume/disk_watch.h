// Which calls of one volume's disk are under way, and since when: a call that does not return can
// be told by another thread only. Whoever looks makes no call of the disk itself.
// Thread-safety: all methods from any thread; none blocks.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "penstock/limits.h"
#include "penstock/runtime.h"
#include "server/volume/disk.h"

namespace penstock {

class DiskWatch {
 public:
  explicit DiskWatch(Clock& clock) : clock_(clock) {}

  // One call, from its begin to its end. With all places taken it goes unseen.
  class Call {
   public:
    Call(DiskWatch& watch, const char* name);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    std::atomic<BootTime::rep>* began_ = nullptr;
  };

  struct Oldest {
    const char* call = "";
    Duration age{};
  };
  // The oldest call under way; remembers whether one is late.
  std::optional<Oldest> look();
  // As of the last look: a call is under way for longer than limits::kDiskLate.
  bool late() const { return late_.load(std::memory_order_relaxed); }

  // The disk hangs: no call is made any more, each answers `unavailable` at once.
  void close() { closed_.store(true, std::memory_order_release); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  struct Place {
    std::atomic<BootTime::rep> began{0};  // 0 = free
    std::atomic<const char*> name{""};
  };
  Clock& clock_;
  std::array<Place, limits::kDiskCallsWatched> places_;
  std::atomic<bool> late_{false};
  std::atomic<bool> closed_{false};
};

// Puts each call of `disk`, and of the files it opens, under the watch. Belongs next to the disk
// itself, below ballast and latch.
std::unique_ptr<Disk> make_watched_disk(std::unique_ptr<Disk> disk,
                                        std::shared_ptr<DiskWatch> watch);

}  // namespace penstock
