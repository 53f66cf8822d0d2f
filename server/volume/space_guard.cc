#include "server/volume/space_guard.h"

namespace penstock {
namespace {

constexpr const char* kBallast = "ballast";
constexpr std::chrono::milliseconds kLookEvery{200};

struct Counted {
  explicit Counted(std::atomic<unsigned>& all) : count(all) { ++count; }
  ~Counted() { --count; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::atomic<unsigned>& count;
};

}  // namespace

std::shared_ptr<SharedDevices::Device> SharedDevices::find(std::uint64_t device) {
  std::lock_guard lock(mutex_);
  auto& known = devices_[device];
  if (!known) known = std::make_shared<Device>();
  return known;
}

SpaceGuard::SpaceGuard(Disk& disk, Clock& clock, SpaceOptions options,
                       std::shared_ptr<SharedDevices> devices)
    : disk_(disk),
      clock_(clock),
      options_(options),
      devices_(devices ? std::move(devices) : std::make_shared<SharedDevices>()) {}

SpaceGuard::~SpaceGuard() {
  if (device_) --device_->volumes;
}

Result<> SpaceGuard::open() {
  TRY(space, disk_.space());
  device_ = devices_->find(space.device);
  ++device_->volumes;
  if (options_.ballast_bytes > 0) {
    TRY(file, disk_.open(kBallast, OpenMode::append));
    TRY(size, file->size());
    std::lock_guard lock(ballast_mutex_);
    ballast_ = std::move(file);
    laid_ = size >= options_.ballast_bytes;
  }
  refresh();
  return {};
}

SpaceGuard::Room SpaceGuard::room(std::uint64_t segment_bytes,
                                  std::uint64_t segment_free_bytes) const {
  Disk::Space space;
  {
    std::lock_guard lock(mutex_);
    space = space_;
  }
  const std::uint64_t growable = growth(space);
  const std::uint64_t volumes = std::max(1u, device_->volumes.load());
  const std::uint64_t least = std::min(limits::kExtentBytesMax, segment_bytes);
  Room room;
  room.free_bytes = segment_free_bytes + growable / volumes;
  room.total_bytes = space.total_bytes / volumes;
  // What is being made has left the disk and is in no segment yet: who wants of it, waits for it.
  const bool growing = growing_.load() > 0;
  room.full = full() || (growable < segment_bytes && segment_free_bytes < least && !growing);
  return room;
}

// A look at the free space counts only if nobody was done since: else what he took may be in
// neither number.
Result<> SpaceGuard::grow(std::uint64_t bytes, const std::function<Result<>()>& allocate) {
  SharedDevices::Device& device = *device_;
  const auto changes = [&] {
    std::lock_guard lock(device.mutex);
    return device.changes;
  };
  bool taken = false;
  while (!taken) {
    const std::uint64_t before = changes();
    TRY(space, disk_.space());
    std::lock_guard lock(device.mutex);
    if (device.changes != before) continue;
    if (growth(space) < bytes + device.taken_bytes) {
      return fail(Errc::full, "no room for another segment or large file on " + disk_.path(""));
    }
    device.taken_bytes += bytes;
    taken = true;
  }
  const Counted growing(growing_);
  auto allocated = allocate();
  std::lock_guard lock(device.mutex);
  device.taken_bytes -= bytes;
  ++device.changes;
  return allocated;
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
  if (!space && space.error().code == Errc::overloaded) return;  // it was not even asked
  const bool full = !space || space->free_bytes < options_.reserve(space->total_bytes);
  full_.store(full);
  {
    std::lock_guard lock(mutex_);
    if (space) space_ = *space;
    looked_ = clock_.boot();
  }
  if (space && !full) lay_ballast(*space);
}

// Without a ballast the volume works all the same: it is a second line.
void SpaceGuard::lay_ballast(const Disk::Space& space) {
  std::lock_guard lock(ballast_mutex_);
  if (laid_ || !ballast_) return;
  if (space.free_bytes < options_.reserve(space.total_bytes) + options_.ballast_bytes) return;
  laid_ = ballast_->allocate(0, options_.ballast_bytes) && ballast_->sync();
}

bool SpaceGuard::release_ballast() {
  std::lock_guard lock(ballast_mutex_);
  full_.store(true);
  if (!laid_) return false;
  laid_ = false;
  return static_cast<bool>(ballast_->truncate(0));
}

}  // namespace penstock
