// A process that looks after a cluster: it calls servers and the source of the map, and serves
// nothing. `penstock ring` and `penstock admin` are made of it.
// Thread-safety: one thread; the tasks run on an I/O thread of its own.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gateway/cluster_arguments.h"
#include "gateway/process/peers.h"
#include "gateway/process/trust.h"
#include "gateway/server_description.h"
#include "penstock/wait_on.h"
#include "server/map_source/map_driver.h"
#include "server/map_source/map_source.h"

namespace penstock {

// One server, as it answered just now.
struct FoundServer {
  std::string address;
  std::string trouble;  // why it does not answer; empty: it does
  std::vector<VolumeId> volumes;
  std::optional<ServerDescription> told;
  Duration round_trip{};
  Duration clock_ahead{};  // its clock against ours, give or take half the round trip
};

// A cluster, as far as it can be reached.
struct ClusterLook {
  MapLook maps;
  std::vector<Announcement> announced;
  std::vector<FoundServer> servers;        // by address
  std::map<VolumeId, std::string> places;  // where volumes are served just now
  const FoundServer* server(const std::string& address) const;
  // What the volume's server says of it; null: nothing.
  const DescribedVolume* volume(VolumeId id) const;
  // The address where the volume is served or, if it is nowhere, where `entry` says.
  std::string address_of(const MapVolume& entry) const;
};

class AdminSession {
 public:
  // Connects to nothing yet. Errors: read_trust()'s; invalid - nothing says where the cluster is,
  // or cluster.json makes no sense; not_found.
  static Result<std::unique_ptr<AdminSession>> open(const ReachArguments& reach,
                                                    const std::string& name);
  ~AdminSession();

  ClusterId cluster() const { return trust_.cluster; }
  Clock& clock() { return base_.clock; }
  // Null: only servers were named.
  MapSource* source() { return source_.get(); }

  template <class T>
  Result<T> run(Task<T> task) {
    return wait_on(base_.io.at(0), std::move(task), "a command");
  }

  // Finds all servers: those that were named, those of the maps, those that announce themselves;
  // `wanted` as well, which get more time to answer. Says what the maps are together.
  Task<ClusterLook> look(std::vector<std::string> wanted);
  // Clients of the map's volumes, where they are served.
  std::vector<std::shared_ptr<VolumeClient>> clients(const ClusterMap& map,
                                                     const ClusterLook& look);
  std::shared_ptr<VolumeClient> client(VolumeId id, const std::string& address);

 private:
  AdminSession(const Trust& trust, const std::string& name);
  Task<> connect(std::set<std::string> addresses, Duration patience);
  Task<> describe_all(ClusterLook& look);
  std::vector<std::shared_ptr<VolumeClient>> found_clients(ClusterLook& look);

  const Trust trust_;
  ProcessBase base_;
  std::vector<std::string> named_;  // servers
  std::map<std::string, std::shared_ptr<RemoteServer>> servers_;
  std::unique_ptr<RemoteServers> peers_;
  std::unique_ptr<MapSource> source_;
};

}  // namespace penstock
