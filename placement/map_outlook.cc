#include "placement/map_outlook.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "placement/ring.h"

namespace penstock {
namespace {

constexpr std::size_t kPositions = 1 << 14;

bool leaves(const MapVolume& volume) { return volume.successor.value != 0; }

std::size_t hosts_of(const ClusterMap& map, const std::set<VolumeId>& lost) {
  std::set<std::string_view> hosts;
  for (const MapVolume& volume : map.volumes) {
    if (!leaves(volume) && !lost.contains(volume.id)) hosts.insert(volume.host);
  }
  return hosts.size();
}

// Domains of which a volume is lost.
std::size_t domains_lost(const ClusterMap& map, const std::set<VolumeId>& lost, bool hosts) {
  std::set<std::string> domains;
  for (const MapVolume& volume : map.volumes) {
    if (leaves(volume) || !lost.contains(volume.id)) continue;
    domains.insert(hosts ? volume.host : volume.name);
  }
  return domains.size();
}

std::set<std::string> zones_of(const ClusterMap& map) {
  std::set<std::string> zones;
  for (const MapVolume& volume : map.volumes) zones.insert(volume.zone);
  return zones;
}

bool has_majorities(const MapGroup& group, const std::set<VolumeId>& lost) {
  const auto there = [&lost](VolumeId id) { return !lost.contains(id); };
  return has_majority(group.replicas, there) &&
         (group.joint.empty() || has_majority(group.joint, there));
}

std::size_t groups_without_majority(const ClusterMap& map, const std::set<VolumeId>& lost) {
  const auto broken = [&lost](const MapGroup& group) { return !has_majorities(group, lost); };
  return static_cast<std::size_t>(std::count_if(map.groups.begin(), map.groups.end(), broken));
}

// Walks over evenly spread positions of the ring.
class Places {
 public:
  Places(const ClusterMap& map, const Ring& ring, const std::set<VolumeId>& lost)
      : map_(map), lost_(lost.begin(), lost.end()) {
    for (const MapVolume& volume : map.volumes) zone_of_[volume.id] = volume.zone;
    const LayoutPolicy& policy = map.policy;
    for (std::size_t i = 0; i < kPositions; ++i) {
      const std::uint64_t position = ~std::uint64_t{0} / kPositions * i;
      note(ring.volumes_for(position, policy.k + policy.m, std::max(policy.m, 1u), lost_));
    }
  }
  std::size_t fewest() const { return fewest_; }
  std::size_t most_in_a_zone() const { return most_in_a_zone_; }
  std::map<VolumeId, double> shares() const {
    double all = 0;
    for (const auto& [id, count] : counts_) all += count;
    std::map<VolumeId, double> shares;
    for (const auto& [id, count] : counts_) shares[id] = count / all;
    return shares;
  }

 private:
  void note(const std::vector<VolumeId>& chosen) {
    fewest_ = std::min(fewest_, chosen.size());
    std::map<std::string_view, std::size_t> per_zone;
    for (const VolumeId id : chosen) {
      // The slots of one object are equally large, those of a smaller layout larger.
      counts_[id] += 1.0 / static_cast<double>(chosen.size());
      most_in_a_zone_ = std::max(most_in_a_zone_, ++per_zone[zone_of_.at(id)]);
    }
  }

  const ClusterMap& map_;
  const std::vector<VolumeId> lost_;
  std::map<VolumeId, std::string_view> zone_of_;
  std::map<VolumeId, double> counts_;
  std::size_t fewest_ = std::numeric_limits<std::size_t>::max();
  std::size_t most_in_a_zone_ = 0;
};

bool zone_survived(const ClusterMap& map, const Places& places) {
  const auto zones = zones_of(map);
  if (zones.size() < 2 || places.most_in_a_zone() > map.policy.m) return false;
  return std::all_of(zones.begin(), zones.end(), [&map](const std::string& zone) {
    std::set<VolumeId> lost;
    for (const MapVolume& volume : map.volumes) {
      if (volume.zone == zone) lost.insert(volume.id);
    }
    return groups_without_majority(map, lost) == 0;
  });
}

}  // namespace

Result<MapOutlook> outlook_of(const ClusterMap& map, const std::set<VolumeId>& lost) {
  TRY(ring, Ring::build(map));
  const LayoutPolicy& policy = map.policy;
  const Places places(map, ring, lost);
  MapOutlook outlook;
  outlook.hosts_are_domains = hosts_of(map, {}) >= kHostsAsDomains;
  const auto broken = domains_lost(map, lost, outlook.hosts_are_domains);
  outlook.domains = map.failure_domains();
  outlook.domains -= std::min(outlook.domains, static_cast<std::uint32_t>(broken));
  outlook.zones = static_cast<std::uint32_t>(zones_of(map).size());
  outlook.groups_without_majority = groups_without_majority(map, lost);
  const std::size_t needed = 1 + std::min(policy.m, 1u);
  outlook.writable = outlook.groups_without_majority == 0 && places.fewest() >= needed;
  if (places.fewest() >= needed) {
    // As a writer chooses: all parity, then as much data as places are left.
    outlook.m = std::min(policy.m, static_cast<std::uint32_t>(places.fewest()) - 1);
    outlook.k = std::min(policy.k, static_cast<std::uint32_t>(places.fewest()) - outlook.m);
    outlook.shares = places.shares();
  }
  outlook.losses_promised = policy.losses_survived();
  outlook.losses_left = outlook.losses_promised -
                        std::min(outlook.losses_promised, static_cast<std::uint32_t>(broken));
  outlook.zone_survived = zone_survived(map, places);
  return outlook;
}

std::uint64_t bytes_that_fit(const MapOutlook& outlook,
                             const std::map<VolumeId, std::uint64_t>& room) {
  if (outlook.k == 0) return 0;
  double stored = std::numeric_limits<double>::max();
  for (const auto& [id, share] : outlook.shares) {
    const auto at = room.find(id);
    const double bytes = at == room.end() ? 0 : static_cast<double>(at->second);
    if (share > 0) stored = std::min(stored, bytes / share);
  }
  return static_cast<std::uint64_t>(stored * outlook.k / (outlook.k + outlook.m));
}

}  // namespace penstock
