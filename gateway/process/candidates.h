// Volumes that may enter the map: fresh ones, which no map names. Pure but driver_name().
// Thread-safety: any thread.
#pragma once
#include <string>
#include <vector>

#include "gateway/process/admin_session.h"

namespace penstock {

// Of these servers; of none: of all that announce themselves. What the map names already is left
// out. With address, host and zone; without names. A server without a --host is its own host.
// Errors: unavailable - a server does not answer; invalid - it has no volume, or one that is named
// by another map; nobody was named and nobody announces itself.
Result<std::vector<MapVolume>> fresh_volumes(const ClusterLook& look,
                                             const std::vector<std::string>& servers);

// Unique, for the role of the driver: "host pid".
std::string driver_name();

}  // namespace penstock
