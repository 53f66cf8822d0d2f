// What the commands of a cluster are given by their command lines.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "gateway/process_shares.h"

namespace penstock {

// By what processes of a cluster know each other. Files; empty: not given.
struct TrustArguments {
  std::string key_file;
  std::string tls_certificate;  // all three of TLS, or none
  std::string tls_key;
  std::string tls_authorities;
};

// Of a process: what is empty may stand in its settings (role_settings.h).
struct ServerArguments {
  std::vector<std::string> directories;
  std::optional<std::string> listen;
  std::string admin_listen;  // empty: the port after that
  TrustArguments trust;
  std::string map;      // the map source; empty: none
  std::string address;  // ADDRESS:PORT at which others reach it; empty: what it listens on
  std::string host;     // failure domains that it announces; empty: not said
  std::string zone;
  std::vector<std::string> peers;  // ADDRESS:PORT of other servers, beside those of the map
  std::string config_file;
  bool format = false;
  ProcessShares shares;
};

struct GatewayArguments {
  std::optional<std::string> listen;
  std::string admin_listen;
  TrustArguments trust;
  std::string map;                   // the map source; empty: none
  std::vector<std::string> servers;  // ADDRESS:PORT of servers to ask for the map
  std::string credentials_file;
  std::string config_file;
  std::string access_log;
  ProcessShares shares;
};

// How a command finds its cluster (cluster_file.h).
struct ReachArguments {
  TrustArguments trust;
  std::string map;                   // a map source
  std::vector<std::string> servers;  // ADDRESS:PORT
  std::string directory;             // of a cluster.json
};

// `ring make` and `ring add`.
struct RingMakeArguments {
  ReachArguments reach;
  std::vector<std::string>
      servers;         // whose volumes are taken in; none: all that announce themselves
  std::string layout;  // make: "K+M"; empty: by the number of failure domains
  double weight = 1;   // add: of each new volume
};

// `ring show`, `what-if`, `status`, `restore`.
struct RingLookArguments {
  ReachArguments reach;
  std::vector<std::string> add;   // what-if: planned hosts (planned_host.h)
  std::vector<std::string> lose;  // what-if: names of volumes, hosts, zones, or addresses
  std::string layout;
  bool json = false;
};

struct RingExportArguments {
  std::vector<std::string> directories;
  std::string to;
  std::string listen = "127.0.0.1:9200";
  std::string map;  // a map source; empty: a file beside the key
  std::string credentials_file;
  std::string host;
  std::string zone;
};

struct AdminStatusArguments {
  ReachArguments reach;
  bool json = false;
  bool watch = false;
};

}  // namespace penstock
