#include "tests/sim/sim_volume.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "server/volume/volume_format.h"
#include "tests/sim/graces.h"

namespace penstock::sim {
namespace {
constexpr SimMicros kDiskDelayMax = 2'000;
}

SimVolume::SimVolume(SimTime& time, std::uint64_t seed, MapVolume entry,
                     std::shared_ptr<const ClusterMap> map)
    : time_(time),
      entry_(std::move(entry)),
      map_(std::move(map)),
      random_(seed),
      clock_(time, random_.between(-1'000'000, 1'000'000),
             1.0 + static_cast<double>(random_.between(-500, 500)) * 1e-6),
      disk_(entry_.name),
      buffers_(limits::kMiB) {}

SimVolume::~SimVolume() = default;

Result<> SimVolume::format() {
  SimWorker worker(time_, random_, kDiskDelayMax);
  const VolumeIdentity identity{map_->cluster, entry_.id};
  return format_volume(disk_, clock_, worker, identity, map_->to_json());
}

Result<> SimVolume::start() {
  if (lost_) return fail(Errc::not_found, "lost");
  auto make_worker = [this](std::string, unsigned) -> std::unique_ptr<Worker> {
    return std::make_unique<SimWorker>(time_, random_, kDiskDelayMax);
  };
  VolumeParts parts{disk_.share(), clock_, random_, buffers_, std::move(make_worker)};
  VolumeOptions options;
  options.database.background = Background::inline_;
  options.database.write_buffer_bytes = 64 * limits::kKiB;
  options.database.block_cache_bytes = 64 * limits::kKiB;
  options.registers.cache_bytes = 256 * limits::kKiB;
  options.fragments.segment_bytes = limits::kMiB;
  options.fragments.cache_bytes = 64 * limits::kKiB;
  options.fragments.lease = graces::kLease;
  options.fragments.reader_pin = graces::kReaderPin;
  options.space.reserve_bytes = 0;
  options.space.reserve_fraction = 0;
  options.space.ballast_bytes = 0;
  TRY(volume, Volume::open(std::move(parts), options));
  volume_ = std::move(volume);
  if (map_->find(entry_.id) == nullptr) return Result<>{};  // it joins later, by adopting a map
  std::vector<GroupEpoch> epochs;
  for (std::uint32_t group = 0; group < map_->groups.size(); ++group) {
    const auto& entry = map_->groups[group];
    epochs.push_back(GroupEpoch{GroupId{group}, entry.epoch, group_digest(entry)});
  }
  boost::asio::co_spawn(time_.io(), volume_->set_epochs(std::move(epochs)), boost::asio::detached);
  return Result<>{};
}

void SimVolume::stop() {
  if (!volume_) return;
  volume_->fail_with(fail(Errc::unavailable, "the process died"));
  dead_.push_back(std::move(volume_));
  volume_ = nullptr;
}

void SimVolume::crash() {
  disk_.crash(random_, Keep::some, Keep::some);
  stop();
}

void SimVolume::kill() {
  disk_.crash(random_, Keep::all, Keep::all);
  stop();
}

void SimVolume::lose() {
  lost_ = true;
  disk_.wipe();
  stop();
}

void SimVolume::fail_from_now_on() {
  lost_ = true;  // it never starts again
  disk_.fail_all();
}

}  // namespace penstock::sim
