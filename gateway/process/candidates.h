// What `penstock ring add` writes into the map: fresh volumes, which no map names, and addresses of
// volumes that are served elsewhere than it says. Pure but driver_name().
// Thread-safety: any thread.
#pragma once
#include <string>
#include <vector>

#include "gateway/process/admin_session.h"
#include "placement/map_change.h"

namespace penstock {

// Of these servers; of none: of all that announce themselves. What the map names already is left
// out. With address, host and zone; without names. A server without a --host is its own host.
// Where there is no map yet, all that announce themselves must answer.
// Errors: unavailable - a server does not answer; invalid - it has no volume, or one that is named
// by another map; nobody was named and nobody announces itself.
Result<std::vector<MapVolume>> fresh_volumes(const ClusterLook& look,
                                             const std::vector<std::string>& servers);

// Of a volume whose own map names it and was not replacing it, while the map that counts does not
// name it: what that means and what to do. Empty: of any other.
std::string left_out_text(const ClusterLook& look, const HeldMap& held);

// Of `map`: each volume that is open at one server, and at no other, whose address the map does not
// say. The server has shown that it is of the cluster. A server that announces the volume at yet
// another address is reached there by others, so that the volume is left out. "All addresses" of a
// machine are no address.
MovedVolumes moved_volumes(const ClusterLook& look, const ClusterMap& map);
// "the map says …, it is served at …: …": with what to do.
std::string moved_text(const MapVolume& entry, const std::string& address);

// Unique, for the role of the driver: "host pid".
std::string driver_name();

}  // namespace penstock
