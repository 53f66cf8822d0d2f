// The connections of a simulated process: the product's own, over the simulated network.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "placement/cluster_map.h"
#include "server/transport/remote_servers.h"
#include "tests/sim/byte_network.h"
#include "tests/sim/sim_gateway.h"

namespace penstock::sim {

// Who a process says it is; all that belong to the cluster have one key.
std::shared_ptr<const HelloTerms> make_terms(PeerRole role, ClusterId cluster, std::string name);

MapStamp stamp_of(const ClusterMap& map);

// Those of a process to servers. It keeps all that it needs.
struct SimPeers {
  SimPeers(SimTime& time, std::shared_ptr<SimHost> owner, std::shared_ptr<NetworkProcess> network,
           std::shared_ptr<const HelloTerms> terms, std::function<MapStamp()> stamp);
  // Of the volumes of a map, by their addresses.
  std::shared_ptr<VolumeClient> volume(const MapVolume& entry);
  void die(NetworkProcess::End end);

  const std::shared_ptr<SimHost> host;
  const std::shared_ptr<NetworkProcess> network;
  RemoteServers servers;
};

// A gateway that reaches the volumes of the cluster over connections.
std::shared_ptr<SimGateway> make_peer_gateway(SimTime& time, ByteNetwork& network, Place place,
                                              const SimCluster& cluster, std::uint64_t seed);

}  // namespace penstock::sim
