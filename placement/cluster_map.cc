#include "placement/cluster_map.h"

#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "penstock/byte_codec.h"
#include "penstock/hmac.h"
#include "penstock/limits.h"
#include "placement/ring.h"

namespace penstock {
namespace {

constexpr std::size_t kVolumesMax = 65'536;  // at a few hundred bytes each the map is < 32 MB
constexpr std::size_t kGroupsMax = 65'536;
constexpr std::size_t kLabelBytesMax = 255;  // a DNS name
constexpr std::uint64_t kUnitBytesMax = 64 * limits::kMiB;
constexpr std::uint32_t kPartitionsManyVolumes = 16;
constexpr std::size_t kFewVolumes = 11;
constexpr std::uint64_t kGroupSalt = 0x70656e73746f636bull;  // keeps groups apart from blobs

struct TableRow {
  std::uint32_t domains;  // from here up
  std::uint32_t k, m, replicas;
};
constexpr std::array<TableRow, 5> kDefaults = {
    {{12, 8, 3, 7}, {6, 4, 2, 5}, {5, 2, 2, 5}, {3, 1, 2, 3}, {1, 1, 0, 1}}};
// Layouts of the table whose parity exceeds what the registers survive.
constexpr std::array<TableRow, 3> kWideParity = {{{3, 1, 2, 3}, {12, 8, 4, 7}, {12, 10, 4, 7}}};

Error refuse(std::string why) { return fail(Errc::invalid, "cluster map: " + std::move(why)); }

// Names appear in logs, metrics and URLs: printable ASCII only.
bool is_label(std::string_view text) {
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  return text.size() <= kLabelBytesMax && std::all_of(text.begin(), text.end(), printable);
}

std::map<std::string_view, std::uint32_t> volumes_by_host(const ClusterMap& map) {
  std::map<std::string_view, std::uint32_t> counts;
  for (const auto& volume : map.volumes) {
    if (volume.successor.value == 0) ++counts[volume.host];
  }
  return counts;
}

// How many volumes one blob or register can use if a host takes at most `per_host`.
std::uint32_t places(const ClusterMap& map, std::uint32_t per_host) {
  const auto hosts = volumes_by_host(map);
  if (hosts.size() < kHostsAsDomains) return static_cast<std::uint32_t>(map.staying());
  std::uint32_t sum = 0;
  for (const auto& [host, count] : hosts) sum += std::min(count, per_host);
  return sum;
}

Result<> check_successors(const ClusterMap& map) {
  std::set<VolumeId> successors;
  for (const auto& volume : map.volumes) {
    if (volume.successor.value == 0) continue;
    const std::string who = "volume \"" + volume.name + "\"";
    const MapVolume* successor = map.find(volume.successor);
    if (successor == nullptr || successor->successor.value != 0) {
      return refuse(who + " is to be replaced by a volume that is not there to stay");
    }
    if (!successors.insert(volume.successor).second) {
      return refuse(who + " shares its successor with another one");
    }
    if (volume.weight != 0) return refuse(who + " is being replaced and would take new data");
  }
  return {};
}

Result<> check_volumes(const ClusterMap& map) {
  if (map.volumes.empty()) return refuse("no volumes");
  if (map.volumes.size() > kVolumesMax) return refuse("too many volumes");
  std::set<VolumeId> ids;
  std::set<std::string_view> names;
  for (const auto& volume : map.volumes) {
    const std::string who = "volume \"" + volume.name + "\"";
    for (const auto* label : {&volume.name, &volume.address, &volume.host, &volume.zone}) {
      if (!is_label(*label)) return refuse("a volume's label is too long or not printable ASCII");
    }
    if (volume.id.value == 0) return refuse(who + " has the id 0");
    if (!ids.insert(volume.id).second) return refuse(who + " repeats the id of another one");
    if (volume.name.empty()) return refuse("a volume has no name");
    if (!names.insert(volume.name).second) return refuse(who + " is there twice");
    if (!std::isfinite(volume.weight) || volume.weight < 0 || volume.weight > 1e9) {
      return refuse(who + " has a weight outside 0 ... 1e9");
    }
  }
  return check_successors(map);
}

Result<> check_fit(const ClusterMap& map) {
  if (map.failure_domains() == 2) return refuse("two volumes: use 1 or at least 3");
  CHECK_OK(check_policy(map.policy));
  const LayoutPolicy& policy = map.policy;
  const std::string name = std::to_string(policy.k) + "+" + std::to_string(policy.m);
  if (places(map, std::max(policy.m, 1u)) < policy.k + policy.m) {
    return refuse("too few failure domains for the layout " + name);
  }
  if (places(map, std::max((policy.replicas - 1) / 2, 1u)) < policy.replicas) {
    return refuse("too few failure domains for R = " + std::to_string(policy.replicas));
  }
  return {};
}

Result<> check_replicas(const ClusterMap& map, const std::vector<VolumeId>& list,
                        const std::string& who) {
  const std::uint32_t replicas = map.policy.replicas;
  if (list.size() != replicas) return refuse(who + " has not R volumes");
  const bool hosts_count = volumes_by_host(map).size() >= kHostsAsDomains;
  std::set<VolumeId> seen;
  std::map<std::string_view, std::uint32_t> per_host;
  for (const VolumeId id : list) {
    const MapVolume* volume = map.find(id);
    if (volume == nullptr) return refuse(who + " names an unknown volume");
    if (!seen.insert(id).second) return refuse(who + " names a volume twice");
    if (++per_host[volume->host] > std::max((replicas - 1) / 2, 1u) && hosts_count) {
      return refuse(who + " has too many replicas on host \"" + volume->host + "\"");
    }
  }
  return {};
}

Result<> check_groups(const ClusterMap& map) {
  if (!std::has_single_bit(map.groups.size())) return refuse("the groups are no power of two");
  if (map.groups.size() > kGroupsMax) return refuse("too many groups");
  for (std::size_t i = 0; i < map.groups.size(); ++i) {
    const MapGroup& group = map.groups[i];
    const std::string who = "group " + std::to_string(i);
    if (group.epoch.value == 0) return refuse(who + " has epoch 0");
    CHECK_OK(check_replicas(map, group.replicas, who));
    if (!group.joint.empty()) CHECK_OK(check_replicas(map, group.joint, who + " (joint)"));
  }
  return {};
}

}  // namespace

std::uint32_t LayoutPolicy::losses_survived() const { return std::min(m, (replicas - 1) / 2); }

const MapVolume* ClusterMap::find(VolumeId id) const {
  const auto same = [id](const MapVolume& volume) { return volume.id == id; };
  const auto found = std::find_if(volumes.begin(), volumes.end(), same);
  return found == volumes.end() ? nullptr : &*found;
}

std::size_t ClusterMap::staying() const {
  const auto stays = [](const MapVolume& volume) { return volume.successor.value == 0; };
  return static_cast<std::size_t>(std::count_if(volumes.begin(), volumes.end(), stays));
}

std::uint32_t ClusterMap::failure_domains() const {
  const std::size_t hosts = volumes_by_host(*this).size();
  return static_cast<std::uint32_t>(hosts >= kHostsAsDomains ? hosts : staying());
}

Result<> check_policy(const LayoutPolicy& policy) {
  const std::uint32_t replicas = policy.replicas;
  if (policy.k == 0) return refuse("a layout needs k >= 1");
  if (std::uint64_t{policy.k} + policy.m > limits::kFragmentsPerStripeMax) {
    return refuse("a layout has at most 32 slots");
  }
  if (replicas % 2 == 0 || replicas > limits::kReplicasMax) {
    return refuse("R must be odd and at most 7");
  }
  const auto same = [&](const TableRow& row) {
    return row.k == policy.k && row.m == policy.m && row.replicas == replicas;
  };
  if (policy.m > (replicas - 1) / 2 && std::none_of(kWideParity.begin(), kWideParity.end(), same)) {
    return refuse("m = " + std::to_string(policy.m) + " promises more losses than R = " +
                  std::to_string(replicas) + " registers survive");
  }
  if (!std::has_single_bit(policy.unit_bytes) || policy.unit_bytes < limits::kBlockBytes ||
      policy.unit_bytes > kUnitBytesMax) {
    return refuse("the unit must be a power of two from 16 KiB to 64 MiB");
  }
  if (policy.inline_bytes_max > limits::kInlineBytesMax ||
      policy.replicated_bytes_max > limits::kPutBytesMax) {
    return refuse("inline_bytes_max or replicated_bytes_max is too large");
  }
  return {};
}

Result<> check_map(const ClusterMap& map) {
  if (map.epoch.value == 0) return refuse("epoch 0");
  CHECK_OK(check_volumes(map));
  CHECK_OK(check_fit(map));
  return check_groups(map);
}

Result<LayoutPolicy> default_policy(std::uint32_t failure_domains) {
  if (failure_domains == 0) return refuse("no volumes");
  if (failure_domains == 2) return refuse("two volumes: use 1 or at least 3");
  const auto fits = [=](const TableRow& row) { return failure_domains >= row.domains; };
  const TableRow& row = *std::find_if(kDefaults.begin(), kDefaults.end(), fits);
  LayoutPolicy policy;
  policy.k = row.k;
  policy.m = row.m;
  policy.replicas = row.replicas;
  return policy;
}

Result<ClusterMap> make_map(ClusterId cluster, std::vector<MapVolume> volumes,
                            std::uint32_t group_count, const LayoutPolicy* policy) {
  ClusterMap map;
  map.cluster = cluster;
  map.epoch = Epoch{1};
  map.volumes = std::move(volumes);
  CHECK_OK(check_volumes(map));
  TRY(by_default, default_policy(map.failure_domains()));
  map.policy = policy == nullptr ? by_default : *policy;
  CHECK_OK(check_fit(map));
  if (group_count > kGroupsMax) return refuse("too many groups");
  TRY(ring, Ring::build(map));
  const std::size_t replicas = map.policy.replicas;
  for (std::uint32_t i = 0; i < group_count; ++i) {
    const std::uint64_t hash = mix_hash(kGroupSalt + i);
    MapGroup group;
    group.epoch = Epoch{1};
    group.replicas =
        ring.volumes_for(hash, replicas, std::max<std::size_t>((replicas - 1) / 2, 1), {});
    map.groups.push_back(std::move(group));
  }
  return ClusterMap::parse(map.to_json());  // checks the rest and names the map by its digest
}

std::uint32_t partitions_for_new_bucket(const ClusterMap& map) {
  return map.staying() <= kFewVolumes ? 1 : kPartitionsManyVolumes;
}

std::array<unsigned char, 32> group_digest(const MapGroup& group) {
  std::string text;
  ByteWriter writer(text);
  writer.number(group.epoch.value);
  for (const auto* list : {&group.replicas, &group.joint}) {
    writer.number(static_cast<std::uint32_t>(list->size()));
    for (const VolumeId id : *list) writer.number(id.value);
  }
  return sha256(as_bytes(text));
}

}  // namespace penstock
