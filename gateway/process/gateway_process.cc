#include "gateway/process/gateway_process.h"

#include <utility>

#include "gateway/process/stack_options.h"
#include "penstock/log.h"

namespace penstock {
namespace {

// There is no root pair beside those of the file: a gateway keeps nothing.
Result<LoadedAccounts> load_accounts(const std::string& path) {
  TRY(accounts, read_accounts(path));
  if (accounts.empty()) return fail(Errc::invalid, path + " names no account");
  TRY(store, CredentialStore::make(std::move(accounts)));
  return LoadedAccounts{std::make_shared<CredentialStore>(std::move(store)), Account{}};
}

}  // namespace

GatewayProcess::GatewayProcess(const LocalConfig& config, const GatewayArguments& arguments,
                               const ClusterKey& key)
    : config_(config), arguments_(arguments), key_(key), base_(options_of_process(config)) {}

GatewayProcess::~GatewayProcess() {
  if (gateway_) gateway_->end_soon();
  if (peers_) peers_->stop();
  base_.io.stop();  // no coroutine runs while the parts go
}

Result<> GatewayProcess::open() {
  TRY(accounts, load_accounts(arguments_.credentials_file));
  TRY(access_log, open_access_log(config_, arguments_.access_log));
  TRY(map, read_map_file(arguments_.map_file, key_.cluster));
  auto stamp = [this, first = stamp_of(*map)] {
    return gateway_ ? stamp_of(*gateway_->objects().membership().map()) : first;
  };
  peers_ =
      make_peers(base_, terms_of(key_, PeerRole::gateway, arguments_.listen), std::move(stamp));
  auto connect = [this](const MapVolume& volume) -> std::shared_ptr<VolumeClient> {
    return peers_->volume(volume.id, volume.address);
  };
  GatewayParts parts{contexts_of(base_.io),
                     ObjectStackParts{map, clients_of(*map, connect), connect, base_.clock,
                                      base_.random, base_.buffers, base_.budget, base_.codecs,
                                      config_.removal.lease, config_.removal.hint_delay},
                     std::move(accounts), std::move(access_log),
                     [this] { return tell_readiness(); }};
  auto options = options_of_gateway(config_, arguments_.credentials_file);
  options.http.sendfile = false;  // there are no files here
  TRY(gateway, GatewayStack::make(std::move(options), std::move(parts)));
  gateway_ = std::move(gateway);
  return {};
}

Result<> GatewayProcess::serve(const Endpoint& s3, const Endpoint& admin) {
  CHECK_OK(gateway_->listen(s3, admin));
  gateway_->begin();
  const auto map = gateway_->objects().membership().map();
  log_event(LogLevel::info, "gateway_ready",
            {{"listen", endpoint_text(s3.address, gateway_->s3_port())},
             {"admin", endpoint_text(admin.address, gateway_->admin_port())},
             {"cluster", cluster_text(key_.cluster)},
             {"volumes", std::to_string(map->volumes.size())},
             {"layout", std::to_string(map->policy.k) + "+" + std::to_string(map->policy.m)}});
  return {};
}

Readiness GatewayProcess::tell_readiness() const {
  const Membership& membership = gateway_->objects().membership();
  const ClusterState state = state_of(membership);
  const std::size_t survived = membership.map()->policy.losses_survived();
  Readiness readiness;
  readiness.ready = state.writable;
  readiness.text = state.writable ? "ready\n" : "not ready: too few volumes for writes\n";
  if (state.lost == 0) {
    readiness.text += "whole\n";
  } else {
    const std::string lost = std::to_string(state.lost) + " of " +
                             std::to_string(membership.map()->volumes.size()) +
                             " volumes do not answer\n";
    readiness.text += (state.lost < survived ? "degraded: " : "critical: ") + lost;
  }
  readiness.text += state.volumes;
  return readiness;
}

void GatewayProcess::stop() {
  log_event(LogLevel::info, "stopping", {{"reason", "signal"}});
  gateway_->end_soon();
  stop_limit_.begin();
  gateway_->stop_requests();
  stop_limit_.waits_for("the admin port");
  gateway_->stop_admin();
  stop_limit_.waits_for("register calls under way");
  gateway_->drain();
  gateway_->stop_log();
  peers_->stop();
  base_.io.stop();
  stop_limit_.ended();
  log_event(LogLevel::info, "stopped");
}

}  // namespace penstock
