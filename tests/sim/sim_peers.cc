#include "tests/sim/sim_peers.h"

#include <algorithm>
#include <utility>

namespace penstock::sim {
namespace {

// Of a process that may be paused: what comes for it then waits.
class OwnStream final : public ByteStream {
 public:
  OwnStream(std::unique_ptr<ByteStream> stream, std::shared_ptr<SimClock> clock)
      : stream_(std::move(stream)), clock_(std::move(clock)) {}
  Task<std::size_t> receive(MutBytes buffer) override {
    auto received = co_await stream_->receive(buffer);
    co_await clock_->run_on();
    co_return received;
  }
  Task<> send(std::span<const ConstBytes> parts) override {
    auto sent = co_await stream_->send(parts);
    co_await clock_->run_on();
    co_return sent;
  }
  void close() override { stream_->close(); }

 private:
  const std::unique_ptr<ByteStream> stream_;
  const std::shared_ptr<SimClock> clock_;
};

Task<std::unique_ptr<ByteStream>> dial(std::shared_ptr<NetworkProcess> network,
                                       std::shared_ptr<SimClock> clock, std::string address) {
  auto stream = co_await network->dial(std::move(address));
  co_await clock->run_on();
  if (!stream) co_return stream.error();
  co_return std::unique_ptr<ByteStream>(
      std::make_unique<OwnStream>(std::move(*stream), std::move(clock)));
}

std::shared_ptr<const LinkParts> link_parts(SimHost& host,
                                            const std::shared_ptr<NetworkProcess>& network,
                                            std::shared_ptr<const HelloTerms> terms,
                                            std::function<MapStamp()> stamp) {
  auto dialed = [network, clock = host.clock](std::string address) {
    return dial(network, clock, std::move(address));
  };
  return std::make_shared<const LinkParts>(LinkParts{*host.clock,
                                                     host.random,
                                                     host.buffers,
                                                     std::move(dialed),
                                                     std::move(terms),
                                                     std::move(stamp),
                                                     {}});
}

}  // namespace

std::shared_ptr<const HelloTerms> make_terms(PeerRole role, ClusterId cluster, std::string name) {
  auto terms = std::make_shared<HelloTerms>();
  terms->role = role;
  terms->cluster = cluster;
  terms->name = std::move(name);
  terms->key.emplace(as_bytes("the key of the cluster"));
  return terms;
}

MapStamp stamp_of(const ClusterMap& map) {
  MapStamp stamp;
  stamp.epoch = map.epoch;
  std::copy_n(map.digest.begin(), stamp.digest.size(), stamp.digest.begin());
  return stamp;
}

SimPeers::SimPeers(SimTime& time, std::shared_ptr<SimHost> owner,
                   std::shared_ptr<NetworkProcess> process, std::shared_ptr<const HelloTerms> terms,
                   std::function<MapStamp()> stamp)
    : host(std::move(owner)),
      network(std::move(process)),
      servers({&time.io()}, link_parts(*host, network, std::move(terms), std::move(stamp))) {}

std::shared_ptr<VolumeClient> SimPeers::volume(const MapVolume& entry) {
  return servers.volume(entry.id, entry.address);
}

void SimPeers::die(NetworkProcess::End end) {
  network->die(end);
  servers.stop();
}

std::shared_ptr<SimGateway> make_peer_gateway(SimTime& time, ByteNetwork& network, Place place,
                                              const SimCluster& cluster, std::uint64_t seed) {
  SimGatewayParts parts;
  parts.host = std::make_shared<SimHost>(time, seed);
  const auto self = std::make_shared<std::weak_ptr<SimGateway>>();
  auto stamp = [self, first = cluster.map] {
    const auto gateway = self->lock();
    return stamp_of(gateway ? *gateway->membership().map() : *first);
  };
  const auto peers = std::make_shared<SimPeers>(
      time, parts.host, std::make_shared<NetworkProcess>(network, place),
      make_terms(PeerRole::gateway, cluster.map->cluster, "gateway"), std::move(stamp));
  parts.connect = [peers](const MapVolume& entry,
                          const std::shared_ptr<Wire>&) -> std::shared_ptr<VolumeClient> {
    return peers->network->alive() ? peers->volume(entry) : nullptr;
  };
  for (const MapVolume& entry : cluster.map->volumes) {
    parts.links.push_back(peers->volume(entry));
  }
  parts.background = false;
  parts.connection_changes = [changes = peers->servers.connection_changes()] {
    return changes->count();
  };
  parts.on_kill = [peers] { peers->die(NetworkProcess::End::killed); };
  const auto gateway = std::make_shared<SimGateway>(time, cluster, std::move(parts));
  *self = gateway;
  return gateway;
}

}  // namespace penstock::sim
