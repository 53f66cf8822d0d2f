// A simulated cluster whose map changes while its source stalls, is away, comes back older or
// empty, or forks, while drivers die and servers are killed; clients write and read meanwhile. What
// is looked at all the time: map_stage.h. At the end an operator restores the source, and all come
// to one map, which knows of every change that was acknowledged.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/sim_clusters.h"

namespace penstock::sim {

// What was violated; empty: nothing.
std::vector<std::string> run_map_seed(std::uint64_t seed, SimClusters& clusters);

}  // namespace penstock::sim
