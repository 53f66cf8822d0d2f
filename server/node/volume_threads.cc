#include "server/node/volume_threads.h"

#include <utility>

namespace penstock {

WorkerPool& VolumeThreads::pool(std::uint64_t device) {
  const std::lock_guard lock(mutex_);
  auto& found = pools_[device];
  if (!found) found = std::make_unique<WorkerPool>("disk", kDeviceThreadsMax);
  return *found;
}

WorkerFactory VolumeThreads::of_device(std::uint64_t device) {
  WorkerPool& disk = pool(device);
  return [this, &disk](std::string role, unsigned threads) {
    WorkerPool& from = role == kCompactionRole ? compaction_ : disk;
    return from.make_worker(std::move(role), threads);
  };
}

}  // namespace penstock
