// The clusters that worlds stand on: map and ring of each size, made once for all seeds, because a
// ring costs more than a whole world does. A cluster depends on its size and variant alone.
// Thread-safety: none.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "placement/cluster_map.h"
#include "placement/ring.h"

namespace penstock::sim {

struct SimCluster {
  std::shared_ptr<const ClusterMap> map;
  std::shared_ptr<const Ring> ring;
};

class SimClusters {
 public:
  // Other variants have other volume ids, and so other placements.
  static constexpr std::uint32_t kVariants = 4;
  const SimCluster& get(std::uint32_t volumes, std::uint32_t variant);

 private:
  std::map<std::pair<std::uint32_t, std::uint32_t>, SimCluster> made_;
};

}  // namespace penstock::sim
