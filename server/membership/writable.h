// Are writes possible with the volumes that are there? Pure. Thread-safety: any thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "placement/cluster_map.h"

namespace penstock {

// `open`: the volumes that answer; `roomy`: how many of them take new data. Every register group
// has a majority of its lists, and a blob finds volumes enough.
inline bool is_writable(const ClusterMap& map, const std::set<VolumeId>& open, std::size_t roomy) {
  if (roomy < 1 + std::min(map.policy.m, 1u)) return false;
  const auto majority_open = [&open](const std::vector<VolumeId>& list) {
    return has_majority(list, [&open](VolumeId id) { return open.contains(id); });
  };
  return std::all_of(map.groups.begin(), map.groups.end(), [&](const MapGroup& group) {
    return majority_open(group.replicas) && (group.joint.empty() || majority_open(group.joint));
  });
}

}  // namespace penstock
