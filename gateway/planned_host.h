// The words of `penstock ring what-if` and `--layout`. Pure. Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "placement/cluster_map.h"

namespace penstock {

// A host that may join: "NAME[,zone=Z][,volumes=N][,weight=W][,size=BYTES]".
struct PlannedHost {
  std::string name;
  std::string zone;
  std::uint32_t volumes = 1;
  double weight = 1;
  std::uint64_t size_bytes = 0;  // of each volume; 0: not said
};
// Errors: invalid - with the word that makes no sense.
Result<PlannedHost> parse_planned_host(std::string_view text);

// Its volumes, with ids that no volume of `map` has.
std::vector<MapVolume> planned_volumes(const ClusterMap& map, const PlannedHost& host);

// The volumes that a name means: a volume by name or id, or those of a host, an address or a zone.
// Errors: not_found - no such thing in the map.
Result<std::set<VolumeId>> volumes_named(const ClusterMap& map, std::string_view name);

// "K+M", with the default's other values for so many domains. Errors: invalid.
Result<LayoutPolicy> parse_layout(std::string_view text, std::uint32_t failure_domains);

}  // namespace penstock
