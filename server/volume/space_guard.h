// The rule for full disks: below a reserve of free space a volume takes no fragments and no inline
// bytes, while tombstones, identity rounds and purges go on. A preallocated file, the ballast, is
// given back when a write finds nothing left at all, so that LevelDB never sees a full disk.
// Thread-safety: all methods from any thread.
#pragma once
#include <atomic>
#include <mutex>

#include "penstock/limits.h"
#include "penstock/runtime.h"
#include "server/volume/disk.h"

namespace penstock {

struct SpaceOptions {
  double reserve_fraction = 0.02;                   // of the whole disk,
  std::uint64_t reserve_bytes = limits::kGiB;       // at least this: what stays for metadata
  std::uint64_t ballast_bytes = 64 * limits::kMiB;  // 0: none
};

class SpaceGuard {
 public:
  // `disk` must outlive it, apart from release_ballast().
  SpaceGuard(Disk& disk, Clock& clock, SpaceOptions options);

  // Looks at the disk and lays the ballast if it is missing and fits. Blocks. Errors: io.
  Result<> open();
  // As of the last look.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  Disk::Space space() const;
  // True at most once per interval: the caller should have refresh() run on a worker.
  bool refresh_due();
  // Looks again. Blocks shortly. A disk that cannot be asked counts as full.
  void refresh();
  // Gives the ballast back, once; true if there was one. Called when a write found the disk full.
  bool release_ballast();

 private:
  void lay_ballast(const Disk::Space& space);
  std::uint64_t reserve(const Disk::Space& space) const;

  Disk& disk_;
  Clock& clock_;
  const SpaceOptions options_;
  std::atomic<bool> full_{false};
  mutable std::mutex mutex_;  // guards all below
  Disk::Space space_;
  BootTime looked_{};
  std::unique_ptr<File> ballast_;
  bool laid_ = false;
};

}  // namespace penstock
