#include "tests/fake/fake_cluster.h"

#include "penstock/log.h"

namespace penstock {
namespace {
std::vector<std::shared_ptr<VolumeClient>> as_clients(
    const std::vector<std::shared_ptr<FakeVolume>>& volumes) {
  return {volumes.begin(), volumes.end()};
}

std::shared_ptr<VolumeClient> client_of(const std::vector<std::shared_ptr<FakeVolume>>& volumes,
                                        VolumeId id) {
  for (const auto& volume : volumes) {
    if (volume->id() == id) return volume;
  }
  return nullptr;
}

std::shared_ptr<const ClusterMap> map_of(std::size_t count, std::uint32_t groups) {
  std::vector<MapVolume> volumes;
  for (std::size_t i = 0; i < count; ++i) {
    MapVolume volume;
    volume.id = VolumeId{i + 1};
    volume.name = "v" + std::to_string(i);
    volume.host = "one";
    volumes.push_back(std::move(volume));
  }
  auto map = make_map(ClusterId{1, 1}, std::move(volumes), groups);
  return std::make_shared<const ClusterMap>(std::move(map).value());
}
}  // namespace

FakeGateway::FakeGateway(const std::shared_ptr<const ClusterMap>& map,
                         const std::vector<std::shared_ptr<FakeVolume>>& volumes, FakeClock& clock,
                         Random& random)
    : membership(map, Ring::build(*map).value(), as_clients(volumes), clock,
                 [&volumes](const MapVolume& volume) { return client_of(volumes, volume.id); }),
      proposer(membership, clock, random),
      buffers(16 * limits::kMiB),
      budget(256 * limits::kMiB),
      blobs(membership, clock, random, buffers, budget, codecs),
      index(membership, proposer, clock, random),
      objects(proposer, blobs, clock),
      multipart(index, proposer, blobs, random, clock) {}

FakeCluster::FakeCluster(std::uint64_t seed, std::uint32_t groups)
    : random(seed), map(map_of(kVolumes, groups)) {
  for (const MapVolume& volume : map->volumes) add_volume(volume.id);
  set_log_level(LogLevel::error);
  gateway = &another_gateway();
}

FakeVolume& FakeCluster::add_volume(VolumeId id) {
  volumes.push_back(std::make_shared<FakeVolume>(id, clock, io));
  volumes.back()->acceptor.map = std::make_shared<const std::string>(map->to_json());
  return *volumes.back();
}

FakeCluster::~FakeCluster() { settle_down(); }

std::shared_ptr<const Bucket> FakeCluster::make_bucket(const std::string& name,
                                                       std::uint32_t partitions) {
  auto created = run(gateway->index.create_bucket(name, "owner", "us-east-1", soon()));
  if (partitions == 0) return created.value().bucket;
  auto spread = std::make_shared<Bucket>(*created.value().bucket);
  spread->record.partitions = partitions;
  return spread;
}

FakeVolume& FakeCluster::volume(VolumeId id) {
  for (auto& each : volumes) {
    if (each->id() == id) return *each;
  }
  std::abort();
}

std::size_t FakeCluster::held(const BlobRef& blob) {
  std::size_t count = 0;
  for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
    const VolumeId holder = blob.locations[slot].volume;
    if (holder.value == 0) continue;
    count += volume(holder).fragments.holds(blob.fragment(slot)) ? 1 : 0;
  }
  return count;
}

void FakeCluster::overwrite(const RegisterKey& key, const RegisterValue& value) {
  for (auto& volume : volumes) {
    const auto found = volume->acceptor.rows.find(key);
    if (found == volume->acceptor.rows.end()) continue;
    ++found->second.accepted.ballot.operation;
    found->second.accepted.value = std::make_shared<const std::string>(encode(key, value));
  }
}

void FakeCluster::move_bucket(const Bucket& bucket, BucketState state, BucketNumber number) {
  BucketRecord record = bucket.record;
  record.state = state;
  record.number = number;
  RegisterValue value = to_value(record);
  value.op_id = OpId{9, number.value};
  value.chain.push_back(OpId{});
  overwrite(BucketCatalog::register_of(bucket.name).key, value);
}

std::vector<Hint> FakeCluster::hints_of(const RegisterKey& key) const {
  for (const auto& volume : volumes) {
    const auto found = volume->acceptor.hints.find(key);
    if (found != volume->acceptor.hints.end() && !found->second.empty()) return found->second;
  }
  return {};
}

}  // namespace penstock
