// `penstock local`: volumes and gateway in one process, the gateway with direct clients.
//
//   open() → serve() … hang_up() … stop()
//
// Thread-safety: one thread.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>

#include "gateway/gateway_stack.h"
#include "gateway/local_arguments.h"
#include "gateway/local_config.h"
#include "gateway/process/stop_limit.h"
#include "server/node/server_stack.h"
#include "server/node/server_work.h"

namespace penstock {

class LocalProcess {
 public:
  static constexpr const char* kStartWaitsFor = "the disks of its directories";

  // How many volumes a start would find, or make. Blocks for 2 s at most.
  static std::size_t count_volumes(const LocalArguments& arguments);

  LocalProcess(const LocalConfig& config, const LocalArguments& arguments);
  // After a start that failed, or after stop(). Ends the process if a disk keeps a volume.
  ~LocalProcess();

  // Errors: StoreStart::run()'s, those of the credentials and of the access log.
  Result<> open();
  // Errors: a port is taken; no directory takes the control socket.
  Result<> serve(const Endpoint& s3, const Endpoint& admin);
  // SIGHUP.
  void hang_up() { gateway_->hang_up(); }
  // Bounded: whatever is not done by limits::kStopMax is cut off. A volume whose threads are stuck
  // in the kernel is left behind; all else ends in order.
  void stop();

 private:
  Result<> make_gateway(LoadedAccounts accounts, std::unique_ptr<AccessLog> access_log);
  RootPlaces root_places();
  void tell_ready(const Endpoint& s3, const Endpoint& admin);
  Readiness tell_readiness();
  Duration patience_until(std::chrono::steady_clock::time_point late) const;

  const LocalConfig config_;
  const LocalArguments arguments_;
  const std::chrono::seconds disk_call_max_;
  std::atomic<bool> serves_{false};  // also the control socket: the start is over
  // Each uses those above it.
  ServerStack server_;
  std::unique_ptr<GatewayStack> gateway_;
  std::unique_ptr<ServerWork> work_;
  StopLimit stop_limit_;
};

}  // namespace penstock
