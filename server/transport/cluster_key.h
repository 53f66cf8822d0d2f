// What the processes of a cluster share: its id, and a secret of 256 bits by which they know each
// other. One JSON file for all of them, {"cluster": 32 hex digits, "key": 64 hex digits}, that only
// its owner may read. Thread-safety: any thread; calls block on the file system.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/runtime.h"

namespace penstock {

struct ClusterKey {
  ClusterId cluster;
  std::array<std::uint8_t, 32> key{};
  bool operator==(const ClusterKey&) const = default;
};

ClusterKey make_cluster_key(Random& random);
// Mode 0600, its bytes are synced; never overwrites. Errors: invalid - there is such a file; io.
Result<> write_cluster_key(const std::string& path, const ClusterKey& key);
// Errors: not_found; io; invalid - it says something else, or others than its owner may read it.
Result<ClusterKey> read_cluster_key(const std::string& path);

std::string cluster_text(ClusterId cluster);
// 32 hex digits, not all zero; nullopt: something else.
std::optional<ClusterId> parse_cluster_id(std::string_view text);

}  // namespace penstock
