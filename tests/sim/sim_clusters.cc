#include "tests/sim/sim_clusters.h"

#include <utility>

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

SimCluster make_cluster(std::uint32_t domains, std::uint32_t volumes_each, bool on_servers,
                        std::uint32_t variant) {
  const std::uint64_t shape = (std::uint64_t{domains} << 32) + (std::uint64_t{volumes_each} << 16);
  SimRandom random(shape + (on_servers ? 1u << 8 : 0u) + variant);
  const auto policy = policy_for(domains);
  std::vector<MapVolume> entries;
  for (std::uint32_t i = 0; i < domains * volumes_each; ++i) {
    MapVolume entry;
    entry.id = VolumeId{random.bits() | 1};
    entry.name = "v" + std::to_string(i);
    entry.host = "h" + std::to_string(i / volumes_each);
    if (on_servers) entry.address = server_address(i / volumes_each);
    entries.push_back(entry);
  }
  const ClusterId id{random.bits(), random.bits()};
  SimCluster cluster;
  cluster.map = std::make_shared<ClusterMap>(make_map(id, entries, kGroups, &policy).value());
  cluster.ring = std::make_shared<const Ring>(Ring::build(*cluster.map).value());
  return cluster;
}

}  // namespace

std::string server_address(std::size_t server) { return "s" + std::to_string(server) + ":1"; }

const SimCluster& SimClusters::find(std::uint32_t domains, std::uint32_t volumes_each,
                                    bool on_servers, std::uint32_t variant) {
  const auto name = std::tuple(domains, volumes_each, on_servers, variant);
  const auto known = made_.find(name);
  if (known != made_.end()) return known->second;
  auto made = make_cluster(domains, volumes_each, on_servers, variant);
  return made_.emplace(name, std::move(made)).first->second;
}

const SimCluster& SimClusters::get(std::uint32_t volumes, std::uint32_t variant) {
  return find(volumes, 1, false, variant);
}

const SimCluster& SimClusters::on_servers(std::uint32_t servers, std::uint32_t volumes_each,
                                          std::uint32_t variant) {
  return find(servers, volumes_each, true, variant);
}

}  // namespace penstock::sim
