#include "server/volume/space_guard.h"

#include "penstock/log.h"

namespace penstock {
namespace {

constexpr const char* kBallast = "ballast";
constexpr std::chrono::milliseconds kLookEvery{200};

}  // namespace

SpaceGuard::SpaceGuard(Disk& disk, Clock& clock, SpaceOptions options)
    : disk_(disk), clock_(clock), options_(options) {}

std::uint64_t SpaceGuard::reserve(const Disk::Space& space) const {
  const auto share = static_cast<std::uint64_t>(static_cast<double>(space.total_bytes) *
                                                options_.reserve_fraction);
  return std::max(share, options_.reserve_bytes);
}

Result<> SpaceGuard::open() {
  if (options_.ballast_bytes > 0) {
    TRY(file, disk_.open(kBallast, OpenMode::append));
    TRY(size, file->size());
    std::lock_guard lock(mutex_);
    ballast_ = std::move(file);
    laid_ = size >= options_.ballast_bytes;
  }
  refresh();
  return {};
}

Disk::Space SpaceGuard::space() const {
  std::lock_guard lock(mutex_);
  return space_;
}

bool SpaceGuard::refresh_due() {
  const BootTime now = clock_.boot();
  std::lock_guard lock(mutex_);
  if (now - looked_ < kLookEvery) return false;
  looked_ = now;
  return true;
}

void SpaceGuard::refresh() {
  const auto space = disk_.space();
  const bool full = !space || space->free_bytes < reserve(*space);
  {
    std::lock_guard lock(mutex_);
    if (space) space_ = *space;
    looked_ = clock_.boot();
    if (space && !full) lay_ballast(*space);
  }
  if (full_.exchange(full) != full) {
    log_event(full ? LogLevel::warn : LogLevel::info, full ? "volume_full" : "volume_not_full",
              {{"volume", disk_.path("")}});
  }
}

// Pre: mutex held. Without a ballast the volume works all the same: it is a second line.
void SpaceGuard::lay_ballast(const Disk::Space& space) {
  if (laid_ || !ballast_) return;
  if (space.free_bytes < reserve(space) + options_.ballast_bytes) return;
  laid_ = ballast_->allocate(0, options_.ballast_bytes) && ballast_->sync();
}

bool SpaceGuard::release_ballast() {
  std::lock_guard lock(mutex_);
  full_.store(true);
  if (!laid_) return false;
  laid_ = false;
  return static_cast<bool>(ballast_->truncate(0));
}

}  // namespace penstock
