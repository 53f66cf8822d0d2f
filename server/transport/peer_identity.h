// Who a process is to another: its cluster and its role, as its certificate says them in a URI
// among its alternative names: penstock://CLUSTER/ROLE, the cluster as 32 hex digits. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/runtime.h"

namespace penstock {

// On the wire, never renumber.
enum class PeerRole : std::uint8_t { gateway = 1, server = 2, admin = 3 };
std::string_view role_name(PeerRole role);

struct PeerIdentity {
  ClusterId cluster;
  PeerRole role = PeerRole::server;
  bool operator==(const PeerIdentity&) const = default;
};
inline constexpr std::string_view kIdentityScheme = "penstock://";
std::string identity_text(const PeerIdentity& identity);
// Errors: invalid - it says something else.
Result<PeerIdentity> parse_identity(std::string_view uri);

}  // namespace penstock
