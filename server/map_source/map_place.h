// Where a map source is, as people write it. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

struct EtcdEndpoint {
  std::string host;  // a name or a literal address, without brackets
  std::uint16_t port = 0;
  bool operator==(const EtcdEndpoint&) const = default;
};

// PEM. Certificate and key go together; what is empty is not given.
struct EtcdTlsFiles {
  std::string authorities;  // whose certificates etcd must have; empty: those of the system
  std::string certificate;  // that this process shows
  std::string key;
};

struct MapPlace {
  std::string file;                     // empty: etcd
  std::vector<EtcdEndpoint> endpoints;  // in the order given; at most kEndpointsMax
  std::string user;                     // empty: none
  std::string password;
  bool tls = false;
  EtcdTlsFiles tls_files;
  std::string text;  // as people may see it: without the password and the files
};
inline constexpr std::size_t kEndpointsMax = 16;

// `etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…]/CLUSTER-ID`, `file:PATH`, or PATH; CLUSTER-ID is
// 32 hex digits. `etcds://…/CLUSTER-ID[?ca=FILE][&cert=FILE&key=FILE]` is the same by TLS.
// `cluster`: the one of the key. Errors: invalid - it says something else, or
// another cluster.
Result<MapPlace> parse_map_place(std::string_view text, ClusterId cluster);

std::string endpoint_text(const EtcdEndpoint& endpoint);

}  // namespace penstock
