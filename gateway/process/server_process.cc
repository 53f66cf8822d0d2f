#include "gateway/process/server_process.h"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "gateway/process/stack_options.h"
#include "gateway/process/volume_line.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/wait_on.h"
#include "server/node/volume_metrics.h"

namespace penstock {
namespace {

constexpr Duration kMapLook = std::chrono::milliseconds(500);  // at what own volumes have adopted
constexpr std::chrono::seconds kPeerDrain{20};
constexpr std::chrono::seconds kAdminDrain{1};

ServerOptions options_of(const LocalConfig& config, const ServerArguments& arguments,
                         ClusterId cluster) {
  ServerOptions options = options_of_server(config, arguments.descriptors);
  options.store.directories = arguments.directories;
  options.store.format = arguments.format;
  options.member_of = cluster;
  return options;
}

}  // namespace

ServerProcess::ServerProcess(const LocalConfig& config, const ServerArguments& arguments,
                             const ClusterKey& key)
    : config_(config),
      arguments_(arguments),
      key_(key),
      disk_call_max_(config.disk_call_max_seconds),
      server_(options_of(config, arguments, key.cluster)),
      metrics_({}, {}),
      admin_(
          server_.base().io.at(0), metrics_, [this] { return tell_readiness(); },
          server_.base().clock, server_.base().random) {}

ServerProcess::~ServerProcess() {
  leaving_.store(true);
  server_.end_watch();
  if (others_) others_->stop();
  server_.base().io.stop();  // no coroutine runs while the parts go
  if (server_.close(disk_call_max_) > 0) ::_exit(kExitFailed);
}

Result<> ServerProcess::open() {
  CHECK_OK(server_.start());
  add_collectors_of_volumes(metrics_, server_.volumes());
  return {};
}

std::shared_ptr<const ServiceParts> ServerProcess::service_parts() {
  ProcessBase& base = server_.base();
  VolumeSet& volumes = server_.volumes();
  auto parts = std::make_shared<ServiceParts>(
      ServiceParts{base.clock,
                   base.random,
                   base.buffers,
                   terms_of(key_, PeerRole::server, arguments_.listen),
                   {},
                   {},
                   {},
                   {}});
  parts->volumes = [&volumes] { return volumes.clients(); };
  parts->find = [&volumes](VolumeId id) { return volumes.client(id); };
  parts->stamp = [&volumes] {
    const auto map = volumes.map();
    return map ? stamp_of(*map) : MapStamp{};
  };
  parts->leaving = [this] { return leaving_.load(); };
  return parts;
}

Result<> ServerProcess::serve(const Endpoint& peers, const Endpoint& admin) {
  IoThreads& io = server_.base().io;
  auto stamp = [&volumes = server_.volumes()] {
    const auto map = volumes.map();
    return map ? stamp_of(*map) : MapStamp{};
  };
  others_ = make_peers(server_.base(), terms_of(key_, PeerRole::server, arguments_.listen),
                       std::move(stamp));
  peers_ = std::make_unique<PeerServer>(contexts_of(io), service_parts());
  const auto serve = [&] { return peers_->listen(peers.address, peers.port); };
  CHECK_OK(call_on(io.at(0), serve, "start"));
  const auto tell = [&] { return admin_.listen(admin.address, admin.port); };
  CHECK_OK(call_on(io.at(0), tell, "start"));
  server_.begin_watch();
  boost::asio::co_spawn(io.at(0), follow_map(), [](std::exception_ptr thrown) {
    if (thrown) report_exception("the look at the map", thrown);
  });
  const auto states = server_.volumes().states();
  log_event(LogLevel::info, "server_ready",
            {{"listen", endpoint_text(peers.address, peers_->port())},
             {"admin", endpoint_text(admin.address, admin_.port())},
             {"cluster", cluster_text(key_.cluster)},
             {"volumes_open", std::to_string(server_.volumes().clients().size()) + "/" +
                                  std::to_string(states.size())}});
  return {};
}

// ---- the map: whoever changes it installs it at the volumes

std::shared_ptr<const ClusterMap> ServerProcess::newest_map() {
  const auto known = server_.volumes().map();
  std::shared_ptr<const ClusterMap> newest = known;
  for (const auto& slot : server_.volumes().slots()) {
    if (!slot->volume) continue;
    std::string text = slot->volume->get_map();
    if (text.empty() || text == looked_at_) continue;
    auto map = ClusterMap::parse(text);
    looked_at_ = std::move(text);
    if (!map || (newest && map->epoch <= newest->epoch)) continue;
    newest = std::make_shared<const ClusterMap>(std::move(*map));
  }
  return newest == known ? nullptr : newest;
}

Awaitable<void> ServerProcess::follow_map() {
  Clock& clock = server_.base().clock;
  while (!leaving_.load()) {
    if (const auto map = newest_map()) {
      const Result<> taken = take_map(map);
      if (!taken) log_event(LogLevel::error, "map_refused", {{"reason", taken.error().context}});
    }
    co_await clock.sleep_until(clock.boot() + kMapLook);
  }
}

Result<> ServerProcess::take_map(std::shared_ptr<const ClusterMap> map) {
  server_.volumes().take_map(map);
  if (work_ == nullptr) return begin_work(std::move(map));
  CHECK_OK(work_->objects->membership().adopt(std::move(map)));
  return {};
}

Result<> ServerProcess::begin_work(std::shared_ptr<const ClusterMap> map) {
  ProcessBase& base = server_.base();
  auto connect = [this](const MapVolume& volume) -> std::shared_ptr<VolumeClient> {
    if (auto own = server_.volumes().client(volume.id)) return own;
    return others_->volume(volume.id, volume.address);
  };
  std::vector<VolumeId> own;
  for (const auto& client : server_.volumes().clients()) own.push_back(client->id());
  auto work = std::make_unique<Work>();
  TRY(objects, ObjectStack::make(ObjectStackParts{
                   map, clients_of(*map, connect), connect, base.clock, base.random, base.buffers,
                   base.budget, base.codecs, config_.removal.lease, config_.removal.hint_delay}));
  work->objects = std::move(objects);
  ObjectStack& parts = *work->objects;
  work->background = std::make_unique<BackgroundWork>(
      BackgroundContext{parts.membership(), parts.proposer(), parts.index(), parts.blobs(),
                        parts.objects(), parts.clock(), std::move(own), config_.removal});
  parts.begin_probes(base.io.at(0));
  work->background->start(base.io.at(0).get_executor());
  work_ = std::move(work);
  log_event(LogLevel::info, "map_taken", {{"epoch", std::to_string(map->epoch.value)}});
  return {};
}

Readiness ServerProcess::tell_readiness() {
  Readiness readiness;
  readiness.ready = !leaving_.load();
  readiness.text = readiness.ready ? "ready\n" : "not ready: it stops\n";
  auto& volumes = server_.volumes();
  const auto map = volumes.map();
  if (!map) readiness.text += "candidate: no map names its volumes yet\n";
  for (const auto& volume : volumes.states()) {
    const MapVolume* entry = map ? map->find(volume.id) : nullptr;
    readiness.text += volume_line(entry ? entry->name : volume.path, volume.status, false);
  }
  return readiness;
}

// ---- the end

Awaitable<void> ServerProcess::end_work() {
  if (work_ == nullptr) co_return;
  work_->objects->end_probes();
  work_->background->stop();
  co_await work_->background->finish();
  co_await work_->objects->drain();
}

void ServerProcess::stop() {
  log_event(LogLevel::info, "stopping", {{"reason", "signal"}});
  leaving_.store(true);
  server_.end_watch_soon();
  stop_limit_.begin();
  IoThreads& io = server_.base().io;
  stop_limit_.waits_for("background work");
  wait_on(io.at(0), end_work(), "end");
  stop_limit_.waits_for("calls of peers");
  wait_on(io.at(0), peers_->stop(Duration(kPeerDrain)), "end");
  stop_limit_.waits_for("the admin port");
  (void)wait_on(io.at(0), admin_.stop(Duration(kAdminDrain)), "end");
  others_->stop();
  stop_limit_.waits_for("volumes");
  server_.end_watch();
  const std::size_t stalled = server_.close(disk_call_max_);
  io.stop();
  if (stalled > 0) {
    log_event(LogLevel::warn, "stopped", {{"volumes_left_behind", std::to_string(stalled)}});
    ::_exit(kExitStuck);
  }
  stop_limit_.ended();
  log_event(LogLevel::info, "stopped");
}

}  // namespace penstock
