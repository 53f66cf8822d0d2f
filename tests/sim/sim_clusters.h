// The clusters that worlds stand on: map and ring of each size, made once for all seeds, because a
// ring costs more than a whole world does. A cluster depends on its size and variant alone.
// Thread-safety: none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "penstock/limits.h"
#include "placement/cluster_map.h"
#include "placement/ring.h"

namespace penstock::sim {

struct SimCluster {
  std::shared_ptr<const ClusterMap> map;
  std::shared_ptr<const Ring> ring;
  // How many predecessors its values name: with fewer, an update of unknown outcome that waits is
  // soon forgotten by those above it (R8).
  std::size_t chain_max = limits::kChainMax;
};

// Where a server of a cluster is reached.
std::string server_address(std::size_t server);

class SimClusters {
 public:
  // Other variants have other volume ids, and so other placements.
  static constexpr std::uint32_t kVariants = 4;
  // Volumes of one process, each a failure domain.
  const SimCluster& get(std::uint32_t volumes, std::uint32_t variant);
  // The same on so many servers, each of which has as many of them: the servers are the domains.
  const SimCluster& on_servers(std::uint32_t servers, std::uint32_t volumes_each,
                               std::uint32_t variant);

 private:
  const SimCluster& find(std::uint32_t domains, std::uint32_t volumes_each, bool on_servers,
                         std::uint32_t variant);
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool, std::uint32_t>, SimCluster> made_;
};

}  // namespace penstock::sim
