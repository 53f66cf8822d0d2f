// What a map would mean: where new data goes, what may be lost, what fits. Before a change of the
// map, this is what a person wants to know of it. Pure. Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "placement/cluster_map.h"

namespace penstock {

struct MapOutlook {
  // ---- domains
  std::uint32_t domains = 0;       // that are there, of failure_domains() kinds
  bool hosts_are_domains = false;  // else each volume is one
  std::uint32_t zones = 0;         // with different names; 1 if none is named
  // ---- new data
  std::uint32_t k = 0;  // of a new large object; 0: none can be written
  std::uint32_t m = 0;
  bool writable = false;  // each group has a majority, and a blob finds places
  // The share of all new bytes that each volume gets. Volumes without any are left out.
  std::map<VolumeId, double> shares;
  // ---- losses
  std::uint32_t losses_promised =
      0;                          // domains, when all are there: LayoutPolicy::losses_survived()
  std::uint32_t losses_left = 0;  // more domains than those that are lost already
  std::size_t groups_without_majority = 0;
  // Would each whole zone be survived, with all it holds? Of registers: as their groups lie now.
  // Of data: as new objects are placed. False if there is one zone only.
  bool zone_survived = false;
};

// `lost`: volumes of the map that do not answer. Places are counted over many positions of the
// ring; shares are exact to about a hundredth of themselves.
// Errors: invalid - no ring can be built.
Result<MapOutlook> outlook_of(const ClusterMap& map, const std::set<VolumeId>& lost = {});

// How many bytes of large objects fit before the first volume is full, if volumes have so much
// room. A volume without an entry counts as full. 0: nothing can be written.
std::uint64_t bytes_that_fit(const MapOutlook& outlook,
                             const std::map<VolumeId, std::uint64_t>& room);

}  // namespace penstock
