// The cluster map: which volumes there are, where they stand, which groups hold registers, how
// blobs are laid out. One versioned JSON document, named everywhere by (epoch, SHA-256 of its
// canonical text). Pure data: no I/O, no clock.
// Thread-safety: immutable once parsed; share by shared_ptr<const ClusterMap>.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// With at least so many hosts a failure domain is a host, else a volume.
inline constexpr std::uint32_t kHostsAsDomains = 3;

struct MapVolume {
  VolumeId id;
  std::string name;     // for people, e.g. "v0"; unique in the map
  std::string address;  // host:port of its server; empty = in this process
  std::string host;
  std::string zone;
  double weight = 1.0;   // relative share of new data; 0 = takes no new data
  VolumeId successor{};  // non-zero: it is being replaced by that volume and leaves the map then
  auto operator<=>(const MapVolume&) const = default;
};

// How blobs of a cluster are laid out; all lengths in bytes.
struct LayoutPolicy {
  std::uint32_t k = 4;
  std::uint32_t m = 2;
  std::uint32_t replicas = 5;            // R, odd
  std::uint64_t unit_bytes = 512 << 10;  // a power of two
  std::uint64_t inline_bytes_max = 4 << 10;
  std::uint64_t replicated_bytes_max = 128 << 10;
  std::uint32_t losses_survived() const;  // p = min(m, (R-1)/2)
  auto operator<=>(const LayoutPolicy&) const = default;
};

struct MapGroup {
  Epoch epoch;
  std::vector<VolumeId> replicas;  // R of them, ordered
  std::vector<VolumeId> joint;     // the new list during a change, else empty
  bool operator==(const MapGroup&) const = default;
};

struct ClusterMap {
  ClusterId cluster;
  Epoch epoch;
  std::vector<MapVolume> volumes;
  LayoutPolicy policy;
  std::vector<MapGroup> groups;            // a power of two, fixed at creation; default 256
  std::array<unsigned char, 32> digest{};  // of the canonical text

  // Errors: invalid - not JSON, an unknown, missing or repeated key, or check_map() refuses it.
  static Result<ClusterMap> parse(std::string_view json);
  // Canonical: parse(to_json()) has the same digest.
  std::string to_json() const;
  const MapVolume* find(VolumeId id) const;
  // How many volumes are not being replaced.
  std::size_t staying() const;
  // Number of failure domains: hosts if there are at least three, else volumes.
  std::uint32_t failure_domains() const;
};

// Whether a map may take the place of another one of its epoch: only where majorities of the
// volumes hold it (R12), so that the other one never counted.
enum class SameEpoch : bool { stays, replaced };
inline bool takes_place_of(const ClusterMap& map, const ClusterMap& of, SameEpoch other) {
  if (map.epoch != of.epoch) return map.epoch > of.epoch;
  return other == SameEpoch::replaced && map.digest != of.digest;
}

// Does the map make sense: distinct volumes, a policy that fits its failure domains, groups of R
// distinct volumes. Hosts are failure domains when there are at least three: then a host holds at
// most m fragments of a blob and (R-1)/2 replicas of a register.
// Errors: invalid - with the reason, for the person who edits maps.
Result<> check_map(const ClusterMap& map);

// The layout that D failure domains get by default (README "Layouts").
// Errors: invalid - D is 0 or 2.
Result<LayoutPolicy> default_policy(std::uint32_t failure_domains);
// Is it a policy that keeps what it promises: p volumes lost, reads and writes of registers and
// blobs go on. More than (R-1)/2 parity units are refused, except in the table's own rows 1+2 at
// R = 3 and 8+4, 10+4 at R = 7, where the last unit guards data and p says what is promised.
// Errors: invalid.
Result<> check_policy(const LayoutPolicy& policy);
// Map of epoch 1: default policy unless one is given, group lists proposed by the ring.
// `group_count` is a power of two. Errors: invalid - see check_map().
Result<ClusterMap> make_map(ClusterId cluster, std::vector<MapVolume> volumes,
                            std::uint32_t group_count, const LayoutPolicy* policy = nullptr);
// Does the predicate hold for more than half of the listed volumes?
template <class Has>
bool has_majority(const std::vector<VolumeId>& list, Has has) {
  const auto count = std::count_if(list.begin(), list.end(), has);
  return static_cast<std::size_t>(count) * 2 > list.size();
}
// SHA-256 of a group's epoch and member lists: what acceptors hold an epoch to mean. A change of
// the map that leaves the group alone keeps it.
std::array<unsigned char, 32> group_digest(const MapGroup& group);
// S_b for a new bucket: 1 up to 11 volumes, else 16.
std::uint32_t partitions_for_new_bucket(const ClusterMap& map);

}  // namespace penstock
