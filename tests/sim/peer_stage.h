// What directed schedules of connections play on: servers with real connections, a caller without
// a map of its own, and a network that does nothing by chance.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/byte_network.h"
#include "tests/sim/sim_clusters.h"
#include "tests/sim/sim_peers.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/stage.h"
#include "tests/sim/stage_time.h"

namespace penstock::sim {

class PeerStage : public StageTime {
 public:
  explicit PeerStage(SimClusters& clusters, std::uint32_t servers = 3,
                     std::uint32_t volumes_each = 1);
  ~PeerStage();

  ByteNetwork& network() { return network_; }
  SimServer& server(std::size_t index) { return *servers_[index]; }
  // In the order of the map.
  SimVolume& volume(std::size_t index) { return *volumes_[index]; }
  const ClusterMap& map() const { return *cluster_.map; }

  // The caller, and its way to a volume, at the address that the map says.
  SimPeers& caller() { return *caller_; }
  std::shared_ptr<VolumeClient> remote(std::size_t volume);
  // Both ways between the caller and a server, or one.
  void cut_requests(std::size_t server, bool cut);
  void cut_answers(std::size_t server, bool cut);
  void break_off(std::size_t server);
  // The map that the caller says it is at.
  MapStamp stamp;
  // Another process beside it; it lives as long as the stage.
  SimPeers& add_caller(std::shared_ptr<const HelloTerms> terms);
  Place caller_place() const { return place_; }

  // Starts what is down, and waits until the caller has met it.
  void start(std::size_t server);
  bool knows(std::size_t server);
  // By the clock of the caller.
  Deadline in(SimMicros time) { return caller_->host->clock->boot() + Duration(time); }

  // A new value for an absent key, which `later` ones outrank.
  std::shared_ptr<AcceptRequest> accept_of(const std::string& key, std::uint64_t later = 0) const;
  std::shared_ptr<ReadRequest> read_of(const std::string& key) const {
    return plain_read(map(), key);
  }
  // What a volume has accepted.
  Ballot ballot_at(std::size_t volume, const std::string& key);

  using StageTime::start;

 private:
  ByteNetwork network_;
  const SimCluster& cluster_;
  const Place place_;
  std::vector<std::shared_ptr<SimServer>> servers_;
  std::vector<std::shared_ptr<SimVolume>> volumes_;
  std::shared_ptr<SimPeers> caller_;
  std::vector<std::shared_ptr<SimPeers>> others_;
};

}  // namespace penstock::sim
