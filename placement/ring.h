// Which volumes should hold a new blob: a pure function of (cluster map, id), so every gateway and server computes the same.
// Method: consistent hashing with weighted virtual nodes (Karger et al., 1997) on a 64-bit ring; a walk clockwise takes volumes
// in distinct zones, then hosts, then volumes. No I/O, no clock, no randomness. Thread-safety: immutable once built.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "placement/cluster_map.h"

namespace penstock {

class Ring {
 public:
  // Errors: invalid - the map is empty or repeats a volume id.
  static Result<Ring> build(const ClusterMap& map);
  // Up to `count` distinct volumes, most preferred first, leaving out those for which `skip` holds (suspects, full ones).
  // Fewer when there are not enough. The order is a preference, not a slot: the record pins slot -> volume at write time.
  // At most `per_host_max` volumes of one host. Cost: O(log points + count).
  std::vector<VolumeId> volumes_for(std::uint64_t hash, std::size_t count, std::size_t per_host_max,
                                    std::span<const VolumeId> skip) const;

 private:
  struct Point {
    std::uint64_t hash;
    std::uint32_t volume;  // index into volumes_
  };
  struct Leaf {
    VolumeId id;
    std::uint32_t host;
    std::uint32_t zone;
  };
  std::vector<Point> points_;
  std::vector<Leaf> volumes_;
};

// Position of a blob on the ring. On disk by its effects only; still frozen, so that tests and operators can predict it.
std::uint64_t ring_hash(WriteId id);

}  // namespace penstock
