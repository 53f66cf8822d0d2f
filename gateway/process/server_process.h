// `penstock server`: volumes that other processes call, and the background work of those volumes.
//
//   open() → serve() … stop()
//
// It serves its volumes as soon as it has opened them. Its own work begins when a map that counts
// names one of them: before, they are candidates. It brings its volumes to that map, and announces
// them where the map is kept.
// Thread-safety: one thread.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gateway/admin_server.h"
#include "gateway/cluster_arguments.h"
#include "gateway/local_arguments.h"
#include "gateway/local_config.h"
#include "gateway/process/clock_watch.h"
#include "gateway/process/peers.h"
#include "gateway/process/stop_limit.h"
#include "server/background/background.h"
#include "server/map_source/map_follower.h"
#include "server/node/server_stack.h"
#include "server/node/volume_admissions.h"
#include "server/objects/object_stack.h"
#include "server/transport/peer_server.h"

namespace penstock {

class ServerProcess {
 public:
  static constexpr const char* kStartWaitsFor = "its disks, or the source of its map";

  ServerProcess(const LocalConfig& config, const ServerArguments& arguments, Trust trust);
  // Ends the process if a disk keeps a volume.
  ~ServerProcess();

  // Errors: ServerStart::run()'s.
  Result<> open();
  // Errors: a port is taken; invalid.
  Result<> serve(const Endpoint& peers, const Endpoint& admin);
  // SIGHUP.
  void hang_up() { reload_certificates(trust_); }
  // Bounded by limits::kStopMax: says that it leaves, lets calls under way end, closes the volumes.
  void stop();

 private:
  // What a server does of itself, once there is a map.
  struct Work {
    std::unique_ptr<ObjectStack> objects;
    std::unique_ptr<BackgroundWork> background;
  };
  std::shared_ptr<const ServiceParts> service_parts();
  std::unique_ptr<MapFollower> make_follower();
  VolumeClients volumes_to_ask(const ClusterMap* map);
  std::vector<std::string> own_maps();
  bool has_moved();
  std::string address() const;
  Announcement announcement();
  Awaitable<void> announce_once();
  Awaitable<void> announce();
  void begin_admissions();
  void tell_address(const Endpoint& peers);
  std::vector<wire::Place> own_places();
  std::vector<wire::Place> moved_places();
  std::shared_ptr<VolumeClient> client_of(const MapVolume& volume);
  Result<> take_map(const std::shared_ptr<const ClusterMap>& map, SameEpoch other);
  Result<> begin_work(std::shared_ptr<const ClusterMap> map);
  Awaitable<void> end_work();
  void add_collectors();
  Readiness tell_readiness();
  // From any thread.
  std::string describe();

  const LocalConfig config_;
  const ServerArguments arguments_;
  const Trust trust_;
  const BootTime started_;
  const std::chrono::seconds disk_call_max_;
  const std::uint64_t since_;                                // when it began, by the wall clock
  std::atomic<std::shared_ptr<const std::string>> address_;  // that it announces; null: not yet
  // Each uses those above it.
  ServerStack server_;
  std::unique_ptr<RemoteServers> others_;
  std::unique_ptr<ClockWatch> clocks_;
  std::unique_ptr<VolumeAdmissions> admissions_;
  std::unique_ptr<Work> work_;               // of the first I/O thread, once it was begun
  std::atomic<const Work*> begun_{nullptr};  // the same, for the others
  std::unique_ptr<PeerServer> peers_;
  Metrics metrics_;
  AdminServer admin_;
  std::string listening_;              // ADDRESS:PORT, once it listens
  std::unique_ptr<MapSource> source_;  // null: none
  std::unique_ptr<MapFollower> follower_;
  std::vector<std::string> looked_at_;  // the maps of the own volumes; of the first I/O thread
  std::string not_announced_;           // why, as it was told last; of the same thread
  std::atomic<bool> leaving_{false};
  std::atomic<bool> announced_{false};  // or the source was away, or keeps no announcements
  StopLimit stop_limit_;
};

}  // namespace penstock
