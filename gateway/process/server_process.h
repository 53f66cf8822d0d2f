// `penstock server`: volumes that other processes call, and the background work of those volumes.
//
//   open() → serve() … stop()
//
// It serves its volumes as soon as it has opened them. Its own work begins when one of them holds a
// map: before, they are candidates.
// Thread-safety: one thread.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "gateway/admin_server.h"
#include "gateway/cluster_arguments.h"
#include "gateway/local_arguments.h"
#include "gateway/local_config.h"
#include "gateway/process/peers.h"
#include "gateway/process/stop_limit.h"
#include "server/background/background.h"
#include "server/node/server_stack.h"
#include "server/objects/object_stack.h"
#include "server/transport/peer_server.h"

namespace penstock {

class ServerProcess {
 public:
  ServerProcess(const LocalConfig& config, const ServerArguments& arguments, const ClusterKey& key);
  // Ends the process if a disk keeps a volume.
  ~ServerProcess();

  // Errors: ServerStart::run()'s.
  Result<> open();
  // Errors: a port is taken; invalid.
  Result<> serve(const Endpoint& peers, const Endpoint& admin);
  void hang_up() {}
  // Bounded by limits::kStopMax: says that it leaves, lets calls under way end, closes the volumes.
  void stop();

 private:
  // What a server does of itself, once there is a map.
  struct Work {
    std::unique_ptr<ObjectStack> objects;
    std::unique_ptr<BackgroundWork> background;
  };
  std::shared_ptr<const ServiceParts> service_parts();
  std::shared_ptr<const ClusterMap> newest_map();
  Awaitable<void> follow_map();
  Result<> take_map(std::shared_ptr<const ClusterMap> map);
  Result<> begin_work(std::shared_ptr<const ClusterMap> map);
  Awaitable<void> end_work();
  Readiness tell_readiness();

  const LocalConfig config_;
  const ServerArguments arguments_;
  const ClusterKey key_;
  const std::chrono::seconds disk_call_max_;
  // Each uses those above it.
  ServerStack server_;
  std::unique_ptr<RemoteServers> others_;
  std::unique_ptr<Work> work_;  // of the first I/O thread, once it was begun
  std::unique_ptr<PeerServer> peers_;
  Metrics metrics_;
  AdminServer admin_;
  std::string looked_at_;  // the text of a map that was parsed last; of the first I/O thread
  std::atomic<bool> leaving_{false};
  StopLimit stop_limit_;
};

}  // namespace penstock
