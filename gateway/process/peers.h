// The connections of a process to servers, with all that they need of it.
// Order of destruction: before the I/O threads and what they borrow of the process, when none of
// its coroutines runs any more. Thread-safety: as RemoteServers.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "placement/cluster_map.h"
#include "server/membership/membership.h"
#include "server/node/process_base.h"
#include "server/transport/cluster_key.h"
#include "server/transport/remote_servers.h"

namespace penstock {

std::shared_ptr<const HelloTerms> terms_of(const ClusterKey& key, PeerRole role, std::string name);
MapStamp stamp_of(const ClusterMap& map);

// `stamp`: of the map that the process is at; may be empty.
std::unique_ptr<RemoteServers> make_peers(ProcessBase& base,
                                          std::shared_ptr<const HelloTerms> terms,
                                          std::function<MapStamp()> stamp);

// A client of each volume of the map, by its address.
std::vector<std::shared_ptr<VolumeClient>> clients_of(const ClusterMap& map,
                                                      const Membership::Connector& connect);

// Writes are possible: each group has a majority, and a blob finds volumes enough. One line a
// volume tells what is lost.
struct ClusterState {
  bool writable = false;
  std::size_t lost = 0;
  std::string volumes;  // lines
};
ClusterState state_of(const Membership& membership);

// Errors: not_found; io; invalid - no map, or of another cluster.
Result<std::shared_ptr<const ClusterMap>> read_map_file(const std::string& path, ClusterId cluster);

}  // namespace penstock
