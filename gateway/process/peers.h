// The connections of a process to servers, with all that they need of it.
// Order of destruction: before the I/O threads and what they borrow of the process, when none of
// its coroutines runs any more. Thread-safety: as RemoteServers.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/process/trust.h"
#include "placement/cluster_map.h"
#include "server/map_source/map_source.h"
#include "server/membership/membership.h"
#include "server/node/process_base.h"
#include "server/transport/remote_servers.h"

namespace penstock {

MapStamp stamp_of(const ClusterMap& map);

// `name`: of this process, for people. `stamp`: of the map that it is at; may be empty.
// `announcement`: of a server (LinkParts).
std::unique_ptr<RemoteServers> make_peers(
    ProcessBase& base, const Trust& trust, PeerRole role, std::string name,
    std::function<MapStamp()> stamp, std::function<std::vector<wire::Place>()> announcement = {});

// What ObjectStackParts wants of connections; it may be kept longer than `peers`.
std::function<std::uint64_t()> changes_of(const RemoteServers& peers);

// A client of each volume of the map, by its address.
std::vector<std::shared_ptr<VolumeClient>> clients_of(const ClusterMap& map,
                                                      const Membership::Connector& connect);

// Volumes that `next` names at another address than `before` (null: none) are reached there from
// now on; volumes and servers that it does not name are called no more.
void move_volumes(RemoteServers& peers, const ClusterMap* before, const ClusterMap& next);
// The same for volumes that are missing, and that servers announce.
void meet_servers(RemoteServers& peers, const Membership& membership,
                  const std::vector<Announcement>& announced);
// Is a volume of the map missing?
bool misses_volumes(const Membership& membership);

}  // namespace penstock
