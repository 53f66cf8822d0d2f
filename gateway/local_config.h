// The configuration of a process: what --config FILE may say. Every key has a default; an unknown
// key is an error, so that a misspelt one never goes unnoticed. Keys that count for another kind of
// process are passed over: one file may serve all. Secrets are not in it: see
// --credentials.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/operations/operations.h"
#include "penstock/limits.h"
#include "placement/cluster_map.h"
#include "server/background/removal/removal_options.h"

namespace penstock {

// What the command line may say as well (role_settings.h). Empty: not said.
struct RoleSettings {
  std::string listen, admin_listen;
  std::vector<std::string> directories;
  std::string credentials;                     // a file
  std::string key, tls_cert, tls_key, tls_ca;  // files
  std::string map;                             // a map source
  std::string address, host, zone;             // of a server, as it announces itself
  std::vector<std::string> peers;              // of a server
  std::vector<std::string> servers;            // that a gateway asks for the map
};

struct LocalConfig {
  RoleSettings role;
  GatewayConfig gateway;     // region, domains, strict_region
  unsigned io_threads = 0;   // 0 = one per core
  std::uint64_t memory = 0;  // of the whole process, in bytes; 0: memory_shares.h says
  std::uint64_t connections_max = limits::kConnectionsMax;
  std::uint64_t connections_per_address_max = 0;  // 0: as HttpOptions has it
  std::uint64_t reader_pause_seconds =            // a client that takes nothing so long is gone
      std::chrono::seconds(limits::kReaderPause).count();
  // A volume with less free space than the larger of the two takes no new data.
  std::uint64_t free_space_min_bytes = limits::kGiB;
  std::uint64_t free_space_min_percent = 2;
  std::uint64_t ballast_bytes =
      64 * limits::kMiB;  // kept on each volume so that its log can always end well
  std::uint64_t disk_call_max_seconds = limits::kDiskCallMax.count();
  bool read_on_caller = true;  // cached reads on the I/O threads: VolumeOptions
  bool sendfile = false;       // send verified file pages without a copy: see HttpOptions
  bool has_policy = false;     // "layout" was given; it counts when the store is formatted
  LayoutPolicy policy;
  bool signature_v2 = true;  // false: Signature Version 2 is refused
  std::string access_log;    // "stdout" or a file; empty: none
  std::string log_level = "info";
  RemovalOptions removal;  // "removal"
};

// `//` and `/*` begin comments. Errors: invalid - not JSON, an unknown key, a value of the wrong
// type or out of range; the context names the key.
Result<LocalConfig> parse_local_config(std::string_view json);
// Each key with its default, as JSON; but "layout", for which the number of volumes decides.
std::string default_config();

}  // namespace penstock
