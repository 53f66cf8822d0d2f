#include "placement/ring.h"

#include <xxhash.h>

#include <bit>
#include <boost/container/small_vector.hpp>
#include <boost/sort/spreadsort/integer_sort.hpp>
#include <cmath>
#include <map>

#include "penstock/assert.h"

namespace penstock {
namespace {

// With V points a volume's share varies by 1/sqrt(V): 1.1 % here, so that the fullest of 100 stays
// below 1.05 (4.5 sigma). Past 128 volumes V falls, and the ring keeps about a million points.
constexpr std::uint32_t kPointsPerVolume = 8192;
constexpr std::uint32_t kPointsPerVolumeMin = 64;
constexpr std::size_t kPointsAimed = std::size_t{kPointsPerVolume} * 128;
constexpr double kWeightRatioMax = 64;  // a volume has at most so many times the usual points

std::uint64_t hash_pair(std::uint64_t first, std::uint64_t second) {
  std::array<unsigned char, 16> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<unsigned char>(first >> (8 * i));
    bytes[8 + i] = static_cast<unsigned char>(second >> (8 * i));
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

// A power of two near the mean weight: the unit in which weights are counted. It rarely changes
// when a volume comes or goes, so the points of the others stay.
double weight_unit(const ClusterMap& map) {
  double sum = 0;
  std::size_t count = 0;
  for (const auto& volume : map.volumes) {
    if (volume.weight <= 0) continue;
    sum += volume.weight;
    ++count;
  }
  return count == 0 ? 1 : std::ldexp(1.0, std::ilogb(sum / static_cast<double>(count) * 1.5));
}

template <class Map>
std::uint32_t index_of(Map& indices, std::string_view label) {
  return indices.try_emplace(label, static_cast<std::uint32_t>(indices.size())).first->second;
}

}  // namespace

Result<Ring> Ring::build(const ClusterMap& map) {
  if (map.volumes.empty()) return fail(Errc::invalid, "ring: no volumes");
  Ring ring;
  std::map<std::string_view, std::uint32_t> hosts, zones, all_hosts;
  std::vector<std::uint32_t> host_zones;
  std::vector<const MapVolume*> sorted;
  for (const auto& volume : map.volumes) {
    sorted.push_back(&volume);
    index_of(all_hosts, volume.host);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const MapVolume* a, const MapVolume* b) { return a->id < b->id; });
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i]->id == sorted[i - 1]->id) {
      return fail(Errc::invalid, "ring: a volume id is there twice");
    }
    if (sorted[i]->weight <= 0) continue;
    const std::uint32_t host = index_of(hosts, sorted[i]->host);
    if (host == host_zones.size()) {  // met first: its zone is that of all its volumes
      host_zones.push_back(index_of(zones, sorted[i]->zone));
      ring.host_sizes_.push_back(0);
      ring.zone_sizes_.resize(zones.size());
      ++ring.zone_sizes_[host_zones[host]];
    }
    ++ring.host_sizes_[host];
    ring.leaves_.push_back(Leaf{sorted[i]->id, host, host_zones[host]});
  }
  ring.hosts_are_domains_ = all_hosts.size() >= kHostsAsDomains;
  ring.add_points(map);
  PENSTOCK_ASSERT(ring.point_hashes_.size() == ring.point_leaves_.size());
  return ring;
}

void Ring::add_points(const ClusterMap& map) {
  std::uint32_t usual = kPointsPerVolume;
  while (usual > kPointsPerVolumeMin && usual * leaves_.size() > kPointsAimed) usual /= 2;
  const double unit = weight_unit(map);
  using Point = std::pair<std::uint64_t, std::uint32_t>;
  std::vector<Point> points;
  points.reserve(usual * leaves_.size());
  for (std::uint32_t i = 0; i < leaves_.size(); ++i) {
    const double ratio = std::min(map.find(leaves_[i].id)->weight / unit, kWeightRatioMax);
    const auto count = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(ratio * usual + 0.5));
    for (std::uint64_t j = 0; j < count; ++j) {
      points.emplace_back(hash_pair(leaves_[i].id.value, j), i);
    }
  }
  const auto bits = [](const Point& point, unsigned shift) { return point.first >> shift; };
  boost::sort::spreadsort::integer_sort(points.begin(), points.end(), bits, std::less<Point>());
  point_hashes_.reserve(points.size());
  point_leaves_.reserve(points.size());
  for (const auto& [hash, leaf] : points) {
    point_hashes_.push_back(hash);
    point_leaves_.push_back(leaf);
  }
}

// One lookup. Volumes are met in ring order. The first of its host goes into the tier of its host:
// so many hosts of its zone were met before. So zones take turns, and none gets a second host
// before all have one. Others of a host come last, while the host has room.
class Ring::Walk {
 public:
  Walk(const Ring& ring, std::size_t count, std::size_t per_host_max)
      : ring_(ring),
        count_(count),
        per_host_max_(ring.hosts_are_domains_ ? per_host_max : ring.leaves_.size()),
        seen_(ring.leaves_.size(), 0),
        host_used_(ring.host_sizes_.size(), 0),
        zone_used_(ring.zone_sizes_.size(), 0),
        zone_hosts_left_(ring.zone_sizes_.begin(), ring.zone_sizes_.end()),
        volumes_left_(ring.leaves_.size()) {}

  void leave_out(std::span<const VolumeId> skip) {
    Counts hosts(ring_.host_sizes_.begin(), ring_.host_sizes_.end());
    const auto before = [](const Leaf& leaf, VolumeId id) { return leaf.id < id; };
    for (const VolumeId id : skip) {
      const auto leaf = std::lower_bound(ring_.leaves_.begin(), ring_.leaves_.end(), id, before);
      if (leaf == ring_.leaves_.end() || leaf->id != id) continue;
      auto& seen = seen_[static_cast<std::size_t>(leaf - ring_.leaves_.begin())];
      if (seen != 0) continue;
      seen = 1;
      --volumes_left_;
      PENSTOCK_ASSERT(hosts[leaf->host] > 0);
      if (--hosts[leaf->host] == 0) --zone_hosts_left_[leaf->zone];
    }
  }

  bool done() const {
    if (volumes_left_ == 0) return true;
    if (met_.size() < count_) return false;
    // What is still to come is in tiers from here on.
    std::uint32_t settled = kLastTier;
    for (std::size_t zone = 0; zone < zone_used_.size(); ++zone) {
      if (zone_hosts_left_[zone] > 0) settled = std::min(settled, zone_used_[zone]);
    }
    if (settled == kLastTier) return true;
    const auto before = [settled](const Met& met) { return met.tier < settled; };
    return static_cast<std::size_t>(std::count_if(met_.begin(), met_.end(), before)) >= count_;
  }

  void meet(std::uint32_t index) {
    PENSTOCK_ASSERT(index < ring_.leaves_.size());
    if (seen_[index] != 0) return;
    PENSTOCK_ASSERT(volumes_left_ > 0);
    seen_[index] = 1;
    --volumes_left_;
    const Leaf& leaf = ring_.leaves_[index];
    if (host_used_[leaf.host] >= per_host_max_) return;
    std::uint32_t tier = kLastTier;
    if (host_used_[leaf.host]++ == 0) {
      PENSTOCK_ASSERT(zone_hosts_left_[leaf.zone] > 0);
      --zone_hosts_left_[leaf.zone];
      tier = zone_used_[leaf.zone]++;
    }
    met_.push_back(Met{leaf.id, tier});
  }

  std::vector<VolumeId> take() const {
    std::vector<VolumeId> chosen;
    chosen.reserve(count_);
    const auto add_tier = [&](std::uint32_t tier) {
      for (const Met& met : met_) {
        if (met.tier == tier && chosen.size() < count_) chosen.push_back(met.id);
      }
    };
    const std::uint32_t tiers =
        zone_used_.empty() ? 0 : *std::max_element(zone_used_.begin(), zone_used_.end());
    for (std::uint32_t tier = 0; tier < tiers && chosen.size() < count_; ++tier) add_tier(tier);
    add_tier(kLastTier);
    return chosen;
  }

 private:
  static constexpr std::uint32_t kLastTier = ~std::uint32_t{0};
  struct Met {
    VolumeId id;
    std::uint32_t tier;
  };
  using Flags = boost::container::small_vector<std::uint8_t, 256>;
  using Counts = boost::container::small_vector<std::uint32_t, 64>;
  const Ring& ring_;
  std::size_t count_;
  std::size_t per_host_max_;
  Flags seen_;
  Counts host_used_;
  Counts zone_used_;        // hosts met
  Counts zone_hosts_left_;  // hosts that the walk can still meet for the first time
  std::size_t volumes_left_;
  boost::container::small_vector<Met, 32> met_;
};

std::vector<VolumeId> Ring::volumes_for(std::uint64_t hash, std::size_t count,
                                        std::size_t per_host_max,
                                        std::span<const VolumeId> skip) const {
  count = std::min(count, leaves_.size());
  if (count == 0 || per_host_max == 0) return {};
  Walk walk(*this, count, per_host_max);
  if (!skip.empty()) walk.leave_out(skip);
  auto at = static_cast<std::size_t>(
      std::lower_bound(point_hashes_.begin(), point_hashes_.end(), hash) - point_hashes_.begin());
  while (!walk.done()) {
    if (at == point_leaves_.size()) at = 0;
    walk.meet(point_leaves_[at++]);
  }
  return walk.take();
}

std::uint64_t ring_hash(WriteId id) { return hash_pair(id.high, id.low); }

}  // namespace penstock
