#include "server/transport/peer_identity.h"

#include <array>

#include "server/transport/cluster_key.h"

namespace penstock {

std::string_view role_name(PeerRole role) {
  switch (role) {
    case PeerRole::gateway:
      return "gateway";
    case PeerRole::server:
      return "server";
    case PeerRole::admin:
      return "admin";
  }
  return "unknown";
}

std::string identity_text(const PeerIdentity& identity) {
  return std::string(kIdentityScheme) + cluster_text(identity.cluster) + "/" +
         std::string(role_name(identity.role));
}

Result<PeerIdentity> parse_identity(std::string_view uri) {
  const Error malformed =
      fail(Errc::invalid, "a certificate wants the name " + std::string(kIdentityScheme) +
                              "CLUSTER/ROLE, with a cluster of 32 hex digits and a role of "
                              "gateway, server or admin");
  if (!uri.starts_with(kIdentityScheme)) return malformed;
  uri.remove_prefix(kIdentityScheme.size());
  const std::size_t slash = uri.find('/');
  if (slash == std::string_view::npos) return malformed;
  const auto cluster = parse_cluster_id(uri.substr(0, slash));
  if (!cluster) return malformed;
  for (const PeerRole role : {PeerRole::gateway, PeerRole::server, PeerRole::admin}) {
    if (uri.substr(slash + 1) == role_name(role)) return PeerIdentity{*cluster, role};
  }
  return malformed;
}

}  // namespace penstock
