// The map that a gateway begins with: from the source, from servers that it is told of, or from
// both. What majorities of the volumes hold counts, as ever; a source alone is believed when too
// few volumes answer.
// Thread-safety: an I/O thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "server/map_source/map_source.h"
#include "server/transport/remote_servers.h"

namespace penstock {

struct MapStart {
  RemoteServers& peers;
  MapSource* source;                 // null: none
  std::vector<std::string> servers;  // ADDRESS:PORT of servers to ask
  Clock& clock;
};

// Where the source holds something that is no map, those are asked, too, that announce themselves.
// Errors: unavailable - none was found until the deadline; not_found - there is none at the source,
// and no server to ask; corrupt - the same for what is no map.
Task<std::shared_ptr<const ClusterMap>> find_map(MapStart start, Deadline deadline);

}  // namespace penstock
