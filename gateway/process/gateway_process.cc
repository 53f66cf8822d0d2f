#include "gateway/process/gateway_process.h"

#include <utility>

#include "gateway/process/lock_metrics.h"
#include "gateway/process/map_start.h"
#include "gateway/process/memory_metrics.h"
#include "gateway/process/peer_metrics.h"
#include "gateway/process/stack_options.h"
#include "gateway/process/volume_line.h"
#include "penstock/log.h"
#include "penstock/wait_on.h"
#include "server/membership/cluster_state.h"

namespace penstock {
namespace {

constexpr Duration kFindMap = std::chrono::seconds(30);

// There is no root pair beside those of the file: a gateway keeps nothing.
Result<LoadedAccounts> load_accounts(const std::string& path) {
  TRY(accounts, read_accounts(path));
  if (accounts.empty()) return fail(Errc::invalid, path + " names no account");
  TRY(store, CredentialStore::make(std::move(accounts)));
  return LoadedAccounts{std::make_shared<CredentialStore>(std::move(store)), Account{}};
}

}  // namespace

GatewayProcess::GatewayProcess(const LocalConfig& config, const GatewayArguments& arguments,
                               Trust trust)
    : config_(config),
      arguments_(arguments),
      trust_(std::move(trust)),
      base_(options_of_process(config, arguments.shares.memory)) {}

GatewayProcess::~GatewayProcess() {
  if (follower_) follower_->stop();
  if (clocks_) clocks_->stop();
  if (gateway_) gateway_->end_soon();
  if (peers_) peers_->stop();
  base_.io.stop();  // no coroutine runs while the parts go
}

Result<> GatewayProcess::open() {
  TRY(accounts, load_accounts(arguments_.credentials_file));
  TRY(access_log, open_access_log(config_, arguments_.access_log));
  if (!arguments_.map.empty()) {
    const MapSourceParts of_source{base_.clock, base_.random, trust_.cluster};
    TRY(source, open_map_source(arguments_.map, of_source));
    source_ = std::move(source);
  }
  auto stamp = [this] {
    const GatewayStack* const made = serving_.load();
    return made ? stamp_of(*gateway_->objects().membership().map()) : MapStamp{};
  };
  peers_ =
      make_peers(base_, trust_, PeerRole::gateway, arguments_.listen.value(), std::move(stamp));
  TRY(map, find_first_map());
  auto connect = [this](const MapVolume& volume) -> std::shared_ptr<VolumeClient> {
    return peers_->volume(volume.id, volume.address);
  };
  GatewayParts parts{
      contexts_of(base_.io),
      ObjectStackParts{map, clients_of(*map, connect), connect, base_.clock, base_.random,
                       base_.buffers, base_.budget, base_.codecs, config_.removal.lease,
                       config_.removal.hint_delay, changes_of(*peers_)},
      std::move(accounts), std::move(access_log), [this] { return tell_readiness(); }};
  auto options = options_of_gateway(config_, arguments_.credentials_file);
  options.http.sendfile = false;  // there are no files here
  TRY(gateway, GatewayStack::make(std::move(options), std::move(parts)));
  gateway_ = std::move(gateway);
  serving_.store(gateway_.get());
  moved_to_ = gateway_->objects().membership().map();
  follower_ = make_follower();
  Metrics& metrics = gateway_->metrics();
  add_collectors_of_peers(metrics, *peers_);
  add_collectors_of_shares(metrics, arguments_.shares.memory);
  add_collector_of_locks(metrics);
  clocks_ = std::make_unique<ClockWatch>(*peers_, base_.clock, false);
  clocks_->add_collectors(metrics);
  add_collectors_of_cluster(metrics, [this] { return &gateway_->objects().membership(); });
  return {};
}

Result<std::shared_ptr<const ClusterMap>> GatewayProcess::find_first_map() {
  MapStart start{*peers_, source_.get(), arguments_.servers, base_.clock};
  auto found = find_map(std::move(start), base_.clock.boot() + kFindMap);
  return wait_on(base_.io.at(0), std::move(found), "the look for the map");
}

std::unique_ptr<MapFollower> GatewayProcess::make_follower() {
  FollowerParts parts{base_.clock, source_.get(), {}, {}, {}, {}, {}, {}, {}};
  Membership& membership = gateway_->objects().membership();
  parts.current = [&membership] { return membership.map(); };
  parts.take = [this, &membership](std::shared_ptr<const ClusterMap> map,
                                   SameEpoch other) -> Result<> {
    CHECK_OK(membership.adopt(std::move(map), other));
    (void)has_moved();
    return {};
  };
  parts.clients = [&membership](const ClusterMap* map) {
    return map == nullptr ? membership.volumes() : membership.reach(*map);
  };
  parts.own = [] { return VolumeClients(); };
  parts.moved = [this] { return has_moved(); };
  parts.misses = [&membership] { return misses_volumes(membership); };
  parts.meet = [this, &membership](const std::vector<Announcement>& announced) {
    meet_servers(*peers_, membership, announced);
  };
  parts.apart = [&membership](const std::vector<VolumeId>& ids) { membership.report_apart(ids); };
  return std::make_unique<MapFollower>(std::move(parts));
}

// Has a newer map come, or been learned by a round? Then its addresses count.
bool GatewayProcess::has_moved() {
  const auto now = gateway_->objects().membership().map();
  if (now == moved_to_) return false;
  move_volumes(*peers_, moved_to_.get(), *now);
  moved_to_ = now;
  return true;
}

Result<> GatewayProcess::serve(const Endpoint& s3, const Endpoint& admin) {
  CHECK_OK(gateway_->listen(s3, admin));
  gateway_->begin();
  follower_->start(base_.io.at(0).get_executor());
  clocks_->start(base_.io.at(0).get_executor());
  const auto map = gateway_->objects().membership().map();
  log_event(LogLevel::info, "gateway_ready",
            {{"listen", endpoint_text(s3.address, gateway_->s3_port())},
             {"admin", endpoint_text(admin.address, gateway_->admin_port())},
             {"cluster", cluster_text(trust_.cluster)},
             {"volumes", std::to_string(map->volumes.size())},
             {"layout", std::to_string(map->policy.k) + "+" + std::to_string(map->policy.m)}});
  return {};
}

Readiness GatewayProcess::tell_readiness() const {
  const Membership& membership = gateway_->objects().membership();
  const auto map = membership.map();
  const auto findings = findings_of(membership, *map);
  const ClusterState state = judge(*map, findings);
  Readiness readiness;
  readiness.ready = state.writable;
  readiness.text = state_lines(state);
  for (const VolumeFinding& volume : findings) {
    readiness.text += volume_line(volume.entry->name + " " + volume.entry->address, volume.status,
                                  volume.suspect, volume.slow);
  }
  readiness.text += map_lines(follower_->state()) + clock_lines(clocks_->report());
  readiness.text += memory_line(arguments_.shares.memory);
  return readiness;
}

void GatewayProcess::stop() {
  log_event(LogLevel::info, "stopping", {{"reason", "signal"}});
  follower_->stop();
  clocks_->stop();
  gateway_->end_soon();
  stop_limit_.begin();
  gateway_->stop_requests();
  stop_limit_.waits_for("the admin port");
  gateway_->stop_admin();
  stop_limit_.waits_for("register calls under way");
  gateway_->drain();
  gateway_->stop_log();
  peers_->stop();
  peers_->wait_ended(std::chrono::seconds(1));
  base_.io.stop();
  stop_limit_.ended();
  log_event(LogLevel::info, "stopped");
}

}  // namespace penstock
