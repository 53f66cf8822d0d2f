// Which volumes should hold a new blob: a pure function of (cluster map, id), so every gateway and
// server computes the same. Method: consistent hashing with weighted virtual nodes (Karger et al.,
// 1997) on a 64-bit ring; a walk clockwise takes volumes in distinct zones, then hosts, then
// volumes. No I/O, no clock, no randomness. Thread-safety: immutable once built.
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
  // Up to `count` distinct volumes, most preferred first, leaving out those for which `skip` holds
  // (suspects, full ones) and those of weight 0. Fewer when there are not enough. The order is a
  // preference, not a slot: the record pins slot -> volume at write time.
  // At most `per_host_max` volumes of one host, where hosts are the failure domains, i.e. in a map
  // of at least three hosts. Cost: O(log points + count + skip * log volumes).
  std::vector<VolumeId> volumes_for(std::uint64_t hash, std::size_t count, std::size_t per_host_max,
                                    std::span<const VolumeId> skip) const;

 private:
  struct Leaf {
    VolumeId id;
    std::uint32_t host;
    std::uint32_t zone;
  };
  class Walk;
  void add_points(const ClusterMap& map);

  // The points in the order of their hashes, as two arrays: the search reads only hashes.
  std::vector<std::uint64_t> point_hashes_;
  std::vector<std::uint32_t> point_leaves_;
  std::vector<Leaf> leaves_;  // by id; only volumes that take data
  std::vector<std::uint32_t> zone_sizes_;
  std::vector<std::uint32_t> host_sizes_;
  bool hosts_are_domains_ = false;
};

// Position of a blob on the ring. On disk by its effects only; still frozen, so that tests and
// operators can predict it.
std::uint64_t ring_hash(WriteId id);

}  // namespace penstock
