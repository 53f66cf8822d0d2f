#include "gateway/process/local_process.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gateway/process/lock_metrics.h"
#include "gateway/process/memory_metrics.h"
#include "gateway/process/peer_metrics.h"
#include "gateway/process/stack_options.h"
#include "gateway/process/volume_line.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/pinned_pages.h"
#include "server/membership/cluster_state.h"
#include "server/node/store_directories.h"
#include "server/node/volume_metrics.h"

namespace penstock {
namespace {

constexpr std::chrono::seconds kCountPatience{2};  // a directory that hangs is the start's matter
constexpr std::chrono::seconds kStopReserve{1};    // for what follows the volumes

ServerOptions options_of(const LocalConfig& config, const LocalArguments& arguments) {
  ServerOptions options = options_of_server(config, arguments.shares, RowReaders::own_process);
  options.store.directories = arguments.directories;
  options.store.volumes = arguments.volumes;
  options.store.format = arguments.format;
  return options;
}

}  // namespace

std::size_t LocalProcess::count_volumes(const LocalArguments& arguments) {
  auto counted = std::make_shared<std::promise<std::size_t>>();
  auto answer = counted->get_future();
  std::thread([counted, directories = arguments.directories, volumes = arguments.volumes] {
    std::size_t count = std::max<std::size_t>(directories.size(), volumes);
    try {
      count = StoreDirectories(directories, volumes).first_places().size();
    } catch (...) {  // the start looks again
      report_exception("the count of volumes");
    }
    counted->set_value(count);
  }).detach();
  if (answer.wait_for(kCountPatience) == std::future_status::ready) return answer.get();
  return std::max<std::size_t>(arguments.directories.size(), arguments.volumes);
}

LocalProcess::LocalProcess(const LocalConfig& config, const LocalArguments& arguments)
    : config_(config),
      arguments_(arguments),
      disk_call_max_(config.disk_call_max_seconds),
      server_(options_of(config, arguments)) {
  PinnedPages::allow(static_cast<unsigned>(arguments.shares.descriptors.pipes));
}

LocalProcess::~LocalProcess() {
  if (gateway_) gateway_->end_soon();
  if (work_) work_->stop_listening();
  server_.end_watch();
  server_.base().io.stop();  // no coroutine runs while the parts go
  // After a start that failed: a disk that hangs keeps the process no longer than it may.
  if (server_.close(disk_call_max_) > 0) exit_now(kExitFailed);
}

Result<> LocalProcess::open() {
  // Before anything is formatted.
  if (!arguments_.credentials_file.empty()) {
    CHECK_OK(read_accounts(arguments_.credentials_file));
  }
  TRY(access_log, open_access_log(config_, arguments_.access_log));
  CHECK_OK(server_.start());
  const auto cluster = server_.volumes().map()->cluster;
  TRY(accounts, load_credentials(arguments_, root_places(), cluster, server_.base().random));
  CHECK_OK(make_gateway(std::move(accounts), std::move(access_log)));
  work_ = std::make_unique<ServerWork>(ServerWorkParts{server_.volumes(), server_.new_volume(),
                                                       gateway_->objects(), server_.base().io,
                                                       config_.removal});
  add_collectors_of_volumes(gateway_->metrics(), server_.volumes());
  add_collectors_of_shares(gateway_->metrics(), arguments_.shares.memory);
  add_collector_of_locks(gateway_->metrics());
  add_collectors_of_cluster(gateway_->metrics(),
                            [this] { return &gateway_->objects().membership(); });
  work_->add_collectors(gateway_->metrics());
  return {};
}

Result<> LocalProcess::serve(const Endpoint& s3, const Endpoint& admin) {
  CHECK_OK(gateway_->listen(s3, admin));
  server_.begin_watch();
  work_->begin();
  gateway_->begin();
  CHECK_OK(work_->listen(server_.volumes().answering(server_.directories().paths())));
  serves_.store(true);
  tell_ready(s3, admin);
  return {};
}

void LocalProcess::stop() {
  log_event(LogLevel::info, "stopping", {{"reason", "signal"}});
  const auto late = std::chrono::steady_clock::now() + limits::kStopMax;
  gateway_->end_soon();
  server_.end_watch_soon();
  stop_limit_.begin();
  gateway_->stop_requests();
  stop_limit_.waits_for("the admin port");
  gateway_->stop_admin();
  stop_limit_.waits_for("the control socket");
  work_->stop_listening();
  stop_limit_.waits_for("background work");
  work_->finish();
  stop_limit_.waits_for("register calls under way");
  gateway_->drain();
  stop_limit_.waits_for("volumes");
  server_.end_watch();
  gateway_->stop_log();
  const std::size_t stalled = server_.close(patience_until(late));
  server_.base().io.stop();
  if (stalled == 0) {
    log_event(LogLevel::info, "stopped");
    stop_limit_.ended();
    return;
  }
  log_event(LogLevel::warn, "stopped",
            {{"volumes_left_behind", std::to_string(stalled)},
             {"reason", "they were not closed in time: disk calls of theirs are under way"}});
  exit_now(kExitStuck);
}

Result<> LocalProcess::make_gateway(LoadedAccounts accounts,
                                    std::unique_ptr<AccessLog> access_log) {
  ProcessBase& base = server_.base();
  VolumeSet& volumes = server_.volumes();
  auto connect = [&volumes](const MapVolume& volume) { return volumes.client(volume.id); };
  GatewayParts parts{contexts_of(base.io),
                     ObjectStackParts{volumes.map(), volumes.clients(), connect, base.clock,
                                      base.random, base.buffers, base.budget, base.codecs,
                                      config_.removal.lease, config_.removal.hint_delay},
                     std::move(accounts), std::move(access_log),
                     [this] { return tell_readiness(); }};
  TRY(gateway, GatewayStack::make(options_of_gateway(config_, arguments_.credentials_file),
                                  std::move(parts)));
  gateway_ = std::move(gateway);
  return {};
}

// A directory whose volume is not open may be a mount point without its disk: it gets no copy.
RootPlaces LocalProcess::root_places() {
  const auto& directories = server_.directories().paths();
  RootPlaces places{directories, server_.volumes().answering(directories), {}, {}};
  places.patience = disk_call_max_;
  if (directories.size() == 1) return places;
  for (const auto& volume : server_.volumes().states()) {
    if (volume.status.state != VolumeStatus::State::open) continue;
    places.keeping.push_back(volume.path);
  }
  return places;
}

void LocalProcess::tell_ready(const Endpoint& s3, const Endpoint& admin) {
  const auto states = server_.volumes().states();
  const auto open = std::count_if(states.begin(), states.end(), [](const auto& volume) {
    return volume.status.state == VolumeStatus::State::open;
  });
  const auto policy = server_.volumes().map()->policy;
  const auto lost = states.size() - static_cast<std::size_t>(open);
  const std::size_t survived = policy.losses_survived();
  log_event(LogLevel::info, "store_ready",
            {{"listen", endpoint_text(s3.address, gateway_->s3_port())},
             {"admin", endpoint_text(admin.address, gateway_->admin_port())},
             {"volumes_open", std::to_string(open) + "/" + std::to_string(states.size())},
             {"connections_max", std::to_string(config_.connections_max)},
             {"layout", std::to_string(policy.k) + "+" + std::to_string(policy.m)},
             {"survives_losses", std::to_string(survived - std::min(survived, lost))}});
}

Readiness LocalProcess::tell_readiness() {
  const Membership& membership = gateway_->objects().membership();
  const auto map = membership.map();
  const ClusterState state = judge(*map, findings_of(membership, *map));
  Readiness readiness;
  readiness.ready = serves_.load() && state.writable;
  // Where all volumes serve, fragments may still be missing: the ring knows.
  const bool all_serve = state.level == ClusterState::Level::whole;
  if (!serves_.load()) {
    readiness.text = "not ready: the start is not over\n";
  } else {
    readiness.text = all_serve ? "ready\n" : state_lines(state);
  }
  if (all_serve || !work_->ring().is_whole()) readiness.text += work_->ring().line();
  for (const auto& volume : server_.volumes().states()) {
    readiness.text += volume_line(volume.name, volume.status, membership.suspect(volume.id),
                                  membership.slow(volume.id));
  }
  readiness.text += memory_line(arguments_.shares.memory);
  return readiness;
}

// For the volumes: their last answers still reach the I/O threads.
Duration LocalProcess::patience_until(std::chrono::steady_clock::time_point late) const {
  const auto left = late - std::chrono::steady_clock::now() - kStopReserve;
  return std::clamp<Duration>(std::chrono::duration_cast<Duration>(left), kStopReserve,
                              disk_call_max_);
}

}  // namespace penstock
