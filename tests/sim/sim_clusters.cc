#include "tests/sim/sim_clusters.h"

#include "penstock/limits.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {
namespace {

constexpr std::uint32_t kGroups = 4;

// Small units, so that small bodies are inline, replicated and striped alike.
LayoutPolicy policy_for(std::uint32_t volumes) {
  auto policy = default_policy(volumes).value();
  policy.unit_bytes = 32 * limits::kKiB;
  policy.inline_bytes_max = 512;
  policy.replicated_bytes_max = 4 * limits::kKiB;
  return policy;
}

SimCluster make_cluster(std::uint32_t volumes, std::uint32_t variant) {
  SimRandom random((std::uint64_t{volumes} << 32) + variant);
  const auto policy = policy_for(volumes);
  std::vector<MapVolume> entries;
  for (std::uint32_t i = 0; i < volumes; ++i) {
    MapVolume entry;
    entry.id = VolumeId{random.bits() | 1};
    entry.name = "v" + std::to_string(i);
    entry.host = "h" + std::to_string(i);
    entries.push_back(entry);
  }
  const ClusterId id{random.bits(), random.bits()};
  SimCluster cluster;
  cluster.map = std::make_shared<ClusterMap>(make_map(id, entries, kGroups, &policy).value());
  cluster.ring = std::make_shared<const Ring>(Ring::build(*cluster.map).value());
  return cluster;
}

}  // namespace

const SimCluster& SimClusters::get(std::uint32_t volumes, std::uint32_t variant) {
  const auto name = std::pair(volumes, variant);
  const auto known = made_.find(name);
  if (known != made_.end()) return known->second;
  return made_.emplace(name, make_cluster(volumes, variant)).first->second;
}

}  // namespace penstock::sim
