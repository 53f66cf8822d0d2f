// `penstock gateway`: S3 on volumes of other processes. It keeps nothing on disk.
//
//   open() → serve() … hang_up() … stop()
//
// Thread-safety: one thread.
#pragma once
#include <memory>

#include "gateway/cluster_arguments.h"
#include "gateway/gateway_stack.h"
#include "gateway/local_config.h"
#include "gateway/process/peers.h"
#include "gateway/process/stop_limit.h"

namespace penstock {

class GatewayProcess {
 public:
  GatewayProcess(const LocalConfig& config, const GatewayArguments& arguments,
                 const ClusterKey& key);
  ~GatewayProcess();

  // Errors: those of the map, the credentials and the access log.
  Result<> open();
  // Errors: a port is taken.
  Result<> serve(const Endpoint& s3, const Endpoint& admin);
  void hang_up() { gateway_->hang_up(); }
  // Bounded by limits::kStopMax.
  void stop();

 private:
  Readiness tell_readiness() const;

  const LocalConfig config_;
  const GatewayArguments arguments_;
  const ClusterKey key_;
  // Each uses those above it.
  ProcessBase base_;
  std::unique_ptr<RemoteServers> peers_;
  std::unique_ptr<GatewayStack> gateway_;
  StopLimit stop_limit_;
};

}  // namespace penstock
