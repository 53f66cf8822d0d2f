// R13: who is asked about a volume that starts, and how many of them are enough. Pure.
// Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "placement/cluster_map.h"

namespace penstock {

struct AdmissionQuorum {
  static constexpr std::uint64_t kDomain = 720720;  // one failure domain; 1 … 16 divide it
  std::vector<MapVolume> peers;                     // all other volumes of the map
  // What the word of each weighs. Volumes of one host are put back together and lost together, so
  // where hosts are the failure domains only those of others count, and those of one host weigh
  // together as much as those of any other, however many they are.
  std::map<VolumeId, std::uint64_t> weights;
  std::uint64_t majority = 0;  // more than half of all weights: two majorities have one in common
  // With as many domains lost as the map survives, so much is left: a majority, or less where a
  // volume could else not start beside those losses. With 3 or 5 domains half of the others are
  // enough; two halves need not meet.
  std::uint64_t enough = 0;
};
AdmissionQuorum admission_quorum(const ClusterMap& map, VolumeId id);

}  // namespace penstock
