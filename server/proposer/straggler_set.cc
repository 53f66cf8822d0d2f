#include "server/proposer/straggler_set.h"

#include "penstock/assert.h"
#include "penstock/limits.h"

namespace penstock {

StragglerSet::~StragglerSet() { PENSTOCK_ASSERT(running_.load() == 0 && "calls hold their set"); }

bool StragglerSet::has_room(VolumeId volume) const {
  if (stragglers_.load() == 0) return true;
  const CountedLock lock(mutex_);
  const auto at = loads_.find(volume);
  return at == loads_.end() || (at->second.frames < limits::kStragglersPerVolume &&
                                at->second.bytes < limits::kStragglerBytesPerVolume);
}

void StragglerSet::ended() {
  if (running_.fetch_sub(1) != 1) return;
  std::vector<Completion<void>> waiting;
  {
    const CountedLock lock(mutex_);
    waiting.swap(drainers_);
  }
  for (const auto& done : waiting) done(Result<>{});
}

void StragglerSet::add(VolumeId volume, std::size_t bytes) {
  stragglers_.fetch_add(1);
  const CountedLock lock(mutex_);
  Load& load = loads_[volume];
  ++load.frames;
  load.bytes += bytes;
}

void StragglerSet::remove(VolumeId volume, std::size_t bytes) {
  {
    const CountedLock lock(mutex_);
    Load& load = loads_[volume];
    PENSTOCK_ASSERT(load.frames > 0 && load.bytes >= bytes);
    --load.frames;
    load.bytes -= bytes;
  }
  stragglers_.fetch_sub(1);
}

Awaitable<void> StragglerSet::drain() {
  while (running_.load() != 0) {
    auto wait = [this](Completion<void> done) {
      const CountedLock lock(mutex_);
      // Seen under the lock: ended() takes the waiters after the count has reached zero.
      if (running_.load() == 0) return done(Result<>{});
      drainers_.push_back(std::move(done));
    };
    if (!co_await await_completion<void>(std::move(wait))) co_return;
  }
}

}  // namespace penstock
