// `penstock gateway`: S3 on volumes of other processes. It keeps nothing on disk.
//
//   open() → serve() … hang_up() … stop()
//
// Thread-safety: one thread.
#pragma once
#include <atomic>
#include <memory>

#include "gateway/cluster_arguments.h"
#include "gateway/gateway_stack.h"
#include "gateway/local_config.h"
#include "gateway/process/clock_watch.h"
#include "gateway/process/peers.h"
#include "gateway/process/stop_limit.h"
#include "server/map_source/map_follower.h"

namespace penstock {

class GatewayProcess {
 public:
  static constexpr const char* kStartWaitsFor = "the map of its cluster";

  GatewayProcess(const LocalConfig& config, const GatewayArguments& arguments, Trust trust);
  ~GatewayProcess();

  // Errors: those of the map, the credentials and the access log.
  Result<> open();
  // Errors: a port is taken.
  Result<> serve(const Endpoint& s3, const Endpoint& admin);
  void hang_up() {
    gateway_->hang_up();
    reload_certificates(trust_);
  }
  // Bounded by limits::kStopMax.
  void stop();

 private:
  Result<std::shared_ptr<const ClusterMap>> find_first_map();
  std::unique_ptr<MapFollower> make_follower();
  bool has_moved();
  Readiness tell_readiness() const;

  const LocalConfig config_;
  const GatewayArguments arguments_;
  const Trust trust_;
  // Each uses those above it.
  ProcessBase base_;
  std::unique_ptr<RemoteServers> peers_;
  std::unique_ptr<ClockWatch> clocks_;
  std::unique_ptr<MapSource> source_;  // null: none
  std::unique_ptr<GatewayStack> gateway_;
  std::atomic<const GatewayStack*> serving_{nullptr};  // once there is one: asked on any thread
  std::shared_ptr<const ClusterMap> moved_to_;         // whose addresses count; of the follower
  std::unique_ptr<MapFollower> follower_;
  StopLimit stop_limit_;
};

}  // namespace penstock
