// The rule for full disks. R, the reserve, is 2 % of the disk and at least 1 GiB. By the free space
// of the disk that the volume lies on:
//
//   at least 1.5 R after it   a new segment or a large file may be made
//   at least R                data is taken: inline bytes, and extents in the segments there are
//   less                      tombstones, write-backs, drops, ceilings, notes; all reads
//
// Why two limits: a segment is never given back, so deletes free room inside segments, not on the
// disk. If segments could take the disk down to R, the next row would make the volume full, and no
// delete would open it again. So they stop at 1.5 R; the half between the two limits is that of the
// log and the database. They hold rows and inline bytes only, which deletes give back.
//
// So a volume is full for fragments when it takes no data at all, or when no segment can be made
// and the room in those there are is less than the largest extent. A fragment that finds no run of
// its length in such room is refused by the store with `full`, and its blob goes elsewhere.
//
// Volumes on one device share its free space: what one is about to take counts as taken for the
// others, so that they do not all take the same room, and each tells an equal share of what may
// still be taken.
//
// A preallocated file, the ballast, is given back when a write finds nothing left at all, so that
// LevelDB never sees a full disk.
//
// Thread-safety: all methods from any thread.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "penstock/limits.h"
#include "penstock/runtime.h"
#include "server/volume/disk/disk.h"
#include "server/volume/fragments/fragment_room.h"

namespace penstock {

struct SpaceOptions {
  double reserve_fraction = 0.02;                   // of the whole disk,
  std::uint64_t reserve_bytes = limits::kGiB;       // at least this: what stays for metadata
  std::uint64_t ballast_bytes = 64 * limits::kMiB;  // 0: none

  // R, of a disk of this size.
  std::uint64_t reserve(std::uint64_t disk_bytes) const {
    const double share = static_cast<double>(disk_bytes) * reserve_fraction;
    return std::max(static_cast<std::uint64_t>(share), reserve_bytes);
  }
  // What segments and large files may take of a disk: what is free beyond 1.5 R.
  std::uint64_t growth(std::uint64_t disk_bytes, std::uint64_t free_bytes) const {
    const std::uint64_t kept = reserve(disk_bytes) + reserve(disk_bytes) / 2;
    return free_bytes - std::min(free_bytes, kept);
  }
};

// The devices under the volumes of one process.
class SharedDevices {
 public:
  struct Device {
    std::atomic<unsigned> volumes{0};
    std::mutex mutex;  // guards the next two; never held during I/O: a call of one volume may hang
    std::uint64_t taken_bytes = 0;  // by those who are about to make a segment or a file
    std::uint64_t changes = 0;      // how often one of them was done
  };
  std::shared_ptr<Device> find(std::uint64_t device);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Device>> devices_;
};

class SpaceGuard final : public FragmentRoom {
 public:
  // `disk` must outlive it, apart from release_ballast(). `devices`: null for a volume alone.
  SpaceGuard(Disk& disk, Clock& clock, SpaceOptions options,
             std::shared_ptr<SharedDevices> devices = nullptr);
  ~SpaceGuard() override;
  SpaceGuard(const SpaceGuard&) = delete;
  SpaceGuard& operator=(const SpaceGuard&) = delete;

  // Looks at the disk and lays the ballast if it is missing and fits. Blocks. Errors: io.
  Result<> open();

  // ---- as of the last look
  // No data may be taken.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  struct Room {
    std::uint64_t free_bytes = 0;   // for fragments: inside of segments, and what may still be
                                    // taken from the disk, this volume's share of it
    std::uint64_t total_bytes = 0;  // of the disk, this volume's share of it
    bool full = false;              // for fragments
  };
  // Of a volume whose segments are so large and have so much room.
  Room room(std::uint64_t segment_bytes, std::uint64_t segment_free_bytes) const;

  // ---- FragmentRoom
  bool accepts_data() const override { return !full(); }
  Result<> grow(std::uint64_t bytes, const std::function<Result<>()>& allocate) override;

  // True at most once per interval: the caller should have refresh() run on a worker.
  bool refresh_due();
  // Looks again. Blocks shortly. A disk that cannot be asked counts as full.
  void refresh();
  // Gives the ballast back, once; true if there was one. Called when a write found the disk full,
  // or the log no room for its next file.
  bool release_ballast();

 private:
  void lay_ballast(const Disk::Space& space);
  // Of all volumes on it together.
  std::uint64_t growth(const Disk::Space& space) const {
    return options_.growth(space.total_bytes, space.free_bytes);
  }

  Disk& disk_;
  Clock& clock_;
  const SpaceOptions options_;
  const std::shared_ptr<SharedDevices> devices_;
  std::shared_ptr<SharedDevices::Device> device_;  // set by open()
  std::atomic<bool> full_{false};
  std::atomic<unsigned> growing_{0};  // those that make a segment or a file
  mutable std::mutex mutex_;          // guards the next two; never held during I/O
  Disk::Space space_;
  BootTime looked_{};
  std::mutex ballast_mutex_;  // guards the next two, also during I/O: taken on workers only
  std::unique_ptr<File> ballast_;
  bool laid_ = false;
};

}  // namespace penstock
