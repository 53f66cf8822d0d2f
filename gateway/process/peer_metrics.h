// What the processes of a cluster tell Prometheus of each other. A server that is called is named
// by its address, a volume by its name in the map; callers of a server, of which there may be many,
// by their role only. So there are as many series as servers and volumes, whatever requests do.
// Thread-safety: a start adds them, before the first text().
#pragma once
#include <functional>

#include "penstock/metrics.h"
#include "server/membership/membership.h"
#include "server/transport/peer_server.h"
#include "server/transport/remote_servers.h"

namespace penstock {

// Of the servers that this process calls. Ownership: borrows both.
void add_collectors_of_peers(Metrics& metrics, const RemoteServers& peers);

// Of the calls that a server answers. Ownership: borrows both.
void add_collectors_of_served_calls(Metrics& metrics, const PeerServer& server);

// Of the volumes of the map as this process finds them. `membership` is asked at each collection;
// null: there is no map yet.
void add_collectors_of_cluster(Metrics& metrics, std::function<const Membership*()> membership);

}  // namespace penstock
