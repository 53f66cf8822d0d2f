#include "tests/crash/process.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "penstock/limits.h"
#include "server/volume/volume_format.h"
#include "tests/sim/graces.h"

namespace penstock::crash {
namespace {
constexpr std::size_t kVolumes = 6;
constexpr std::uint64_t kLogFileBytes = 64 * limits::kKiB;
constexpr sim::SimMicros kDiskDelayMax = 2'000;
constexpr sim::SimMicros kSettleLimit = 60'000'000;
}  // namespace

std::shared_ptr<const sim::SimCluster> make_crash_cluster(sim::SimRandom& random) {
  LayoutPolicy policy = default_policy(kVolumes).value();
  policy.unit_bytes = 32 * limits::kKiB;
  policy.inline_bytes_max = 512;
  policy.replicated_bytes_max = 4 * limits::kKiB;
  std::vector<MapVolume> entries;
  for (std::size_t i = 0; i < kVolumes; ++i) {
    MapVolume entry;
    entry.id = VolumeId{random.bits() | 1};
    entry.name = "v" + std::to_string(i);
    entry.host = "local";
    entries.push_back(std::move(entry));
  }
  const ClusterId cluster{random.bits(), random.bits()};
  auto made = std::make_shared<sim::SimCluster>();
  made->map =
      std::make_shared<ClusterMap>(make_map(cluster, std::move(entries), 4, &policy).value());
  made->ring = std::make_shared<const Ring>(Ring::build(*made->map).value());
  return made;
}

VolumeOptions crash_volume_options() {
  VolumeOptions options;
  options.database.background = Background::inline_;
  options.database.write_buffer_bytes = 64 * limits::kKiB;
  options.database.block_cache_bytes = 64 * limits::kKiB;
  options.database.log_file_bytes_min = kLogFileBytes;
  options.database.log_replay_max = 128 * limits::kKiB;
  options.registers.cache_bytes = 256 * limits::kKiB;
  options.registers.ballot_bytes = 64 * limits::kKiB;
  options.fragments.segment_bytes = 128 * limits::kKiB;
  options.fragments.cache_bytes = 64 * limits::kKiB;
  options.fragments.lease = sim::graces::kLease;
  options.fragments.reader_pin = sim::graces::kReaderPin;
  options.space.reserve_bytes = 0;
  options.space.reserve_fraction = 0;
  options.space.ballast_bytes = 16 * limits::kKiB;
  return options;
}

Process::Process(sim::SimTime& time, std::uint64_t seed,
                 std::shared_ptr<const sim::SimCluster> cluster)
    : time_(time),
      cluster_(std::move(cluster)),
      random_(seed),
      clock_(time, 0, 1.0),
      buffers_(limits::kMiB),
      volumes_(cluster_->map->volumes.size()) {}

Process::~Process() = default;

Result<> Process::format(std::size_t index, Disk& disk) {
  sim::SimWorker worker(time_, random_, kDiskDelayMax);
  const VolumeIdentity identity{cluster_->map->cluster, cluster_->map->volumes[index].id};
  return format_volume(disk, clock_, random_, worker, identity, cluster_->map->to_json(),
                       kLogFileBytes);
}

Result<> Process::open(std::size_t index, std::unique_ptr<Disk> disk) {
  auto make_worker = [this](std::string, unsigned) -> std::unique_ptr<Worker> {
    return std::make_unique<sim::SimWorker>(time_, random_, kDiskDelayMax);
  };
  VolumeParts parts{std::move(disk), clock_, random_, buffers_, std::move(make_worker)};
  VolumeOptions options = crash_volume_options();
  options.boot_id = boot_id_;
  TRY(volume, Volume::open(std::move(parts), std::move(options)));
  volumes_[index] = std::move(volume);
  return {};
}

void Process::serve(const std::set<std::size_t>& left_out) {
  std::vector<GroupEpoch> epochs;
  for (std::uint32_t group = 0; group < cluster_->map->groups.size(); ++group) {
    const auto& entry = cluster_->map->groups[group];
    epochs.push_back(GroupEpoch{GroupId{group}, entry.epoch, group_digest(entry)});
  }
  std::vector<std::shared_ptr<VolumeClient>> links;
  std::vector<VolumeId> local;
  std::size_t waiting = 0;
  for (std::size_t i = 0; i < volumes_.size(); ++i) {
    if (!volumes_[i]) continue;
    if (!left_out.contains(i)) {
      links.push_back(volumes_[i]);
      local.push_back(volumes_[i]->id());
    }
    if (!gateways_.empty()) continue;
    ++waiting;
    boost::asio::co_spawn(time_.io(), volumes_[i]->set_epochs(epochs),
                          [&waiting](std::exception_ptr, Result<>) { --waiting; });
  }
  time_.run_until([&] { return waiting == 0; }, time_.now() + kSettleLimit);
  if (!gateways_.empty()) gateways_.back()->background().stop();
  sim::SimGatewayParts parts;
  parts.host = std::make_shared<sim::SimHost>(time_, random_.bits());
  parts.links = std::move(links);
  parts.local = std::move(local);
  gateways_.push_back(std::make_unique<sim::SimGateway>(time_, *cluster_, std::move(parts)));
}

void Process::close() {
  for (const auto& gateway : gateways_) gateway->background().stop();
  time_.run_until([] { return false; }, time_.now() + kSettleLimit);
  gateways_.clear();
  for (auto& volume : volumes_) {
    if (volume) volume->close();
    volume.reset();
  }
}

S3Request ask(std::string method, std::string bucket, std::string key, Pairs query, Pairs headers) {
  S3Request request;
  request.method = std::move(method);
  request.path = "/" + bucket + (key.empty() ? "" : "/" + key);
  request.bucket = std::move(bucket);
  request.key = std::move(key);
  request.query = std::move(query);
  request.headers = std::move(headers);
  return request;
}

Task<sim::SimGateway::Answer> Process::call(S3Request request, std::string body) {
  return gateway().call(std::move(request), std::move(body));
}

}  // namespace penstock::crash
