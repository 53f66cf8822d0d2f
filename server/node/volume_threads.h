// The threads that volumes use for what may block. Those of one device share a pool: more threads
// than a device can keep busy would only wait for it. Compactions, which commits of the same volume
// may wait for, have a pool of their own, for all devices, since they want processors rather than
// disks.
// Thread-safety: all methods from any thread.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "penstock/worker_pool.h"
#include "server/volume/volume.h"

namespace penstock {

class VolumeThreads {
 public:
  // Six volumes on one device may have all that they can use: 1 commit, 2 reads of rows, 2 writes
  // and 2 reads of fragments each.
  static constexpr unsigned kDeviceThreadsMax = 42;
  static constexpr unsigned kCompactionThreadsMax = 24;

  // For the volumes on a device, by Disk::Space::device. The workers must go before this object, or
  // be abandoned.
  WorkerFactory of_device(std::uint64_t device);

 private:
  WorkerPool& pool(std::uint64_t device);

  std::mutex mutex_;                                            // guards the next one
  std::map<std::uint64_t, std::unique_ptr<WorkerPool>> pools_;  // of each device, never removed
  WorkerPool compaction_{"compaction", kCompactionThreadsMax};
};

}  // namespace penstock
