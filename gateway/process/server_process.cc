#include "gateway/process/server_process.h"

#include <boost/asio/co_spawn.hpp>
#include <set>
#include <utility>

#include "gateway/http/http_metrics.h"
#include "gateway/log_metrics.h"
#include "gateway/process/lock_metrics.h"
#include "gateway/process/memory_metrics.h"
#include "gateway/process/peer_metrics.h"
#include "gateway/process/stack_options.h"
#include "gateway/process/volume_line.h"
#include "gateway/program_version.h"
#include "gateway/server_description.h"
#include "penstock/caught.h"
#include "penstock/keep_running.h"
#include "penstock/log.h"
#include "penstock/text_codec.h"
#include "penstock/wait_on.h"
#include "server/background/background_metrics.h"
#include "server/membership/cluster_state.h"
#include "server/node/volume_metrics.h"

namespace penstock {
namespace {

constexpr Duration kAnnounceEvery = std::chrono::seconds(3);
constexpr Duration kAnnouncePatience = std::chrono::seconds(2);
constexpr std::chrono::seconds kPeerDrain{20};
constexpr Duration kLinksEnd = std::chrono::seconds(1);
constexpr std::chrono::seconds kAdminDrain{1};

ServerOptions options_of(const LocalConfig& config, const ServerArguments& arguments,
                         ClusterId cluster) {
  ServerOptions options = options_of_server(config, arguments.shares, RowReaders::other_processes);
  options.store.directories = arguments.directories;
  options.store.format = arguments.format;
  options.member_of = cluster;
  return options;
}

std::string name_of(const VolumeSet::VolumeState& volume, const ClusterMap* map) {
  const MapVolume* entry = map ? map->find(volume.id) : nullptr;
  return entry ? entry->name : volume.path;
}

// Why a server without a single open volume is not ready; empty: it has one.
std::string why_not_ready(const std::vector<VolumeSet::VolumeState>& states,
                          const ClusterMap* map) {
  std::string why;
  for (const auto& volume : states) {
    if (volume.status.state == VolumeStatus::State::open) return {};
    why +=
        (why.empty() ? " " : "; ") + name_of(volume, map) + ": " + printable(volume.status.reason);
  }
  return "no volume is open:" + why;
}

// What /readyz says of a server's volumes in one line; volume by volume, behind it.
std::string own_state(const std::vector<VolumeSet::VolumeState>& states, const ClusterMap* map) {
  std::size_t closed = 0, full = 0;
  std::string names;
  for (const auto& volume : states) {
    if (volume.status.full) ++full;
    if (volume.status.state == VolumeStatus::State::open) continue;
    ++closed;
    names += (names.empty() ? "" : ", ") + name_of(volume, map);
  }
  const std::string of_all = " of " + std::to_string(states.size()) + " volumes ";
  if (closed == states.size()) return "critical: no volume is open";
  if (closed > 0) {
    return "degraded: " + std::to_string(closed) + of_all + "are not open (" + names + ")";
  }
  if (map == nullptr) return "candidate: no map names its volumes yet";
  if (full > 0) return "degraded: " + std::to_string(full) + of_all + "take no new data";
  return "whole";
}

}  // namespace

ServerProcess::ServerProcess(const LocalConfig& config, const ServerArguments& arguments,
                             Trust trust)
    : config_(config),
      arguments_(arguments),
      trust_(std::move(trust)),
      started_(RealClock().boot()),
      disk_call_max_(config.disk_call_max_seconds),
      since_(static_cast<std::uint64_t>(RealClock().wall().time_since_epoch().count())),
      server_(options_of(config, arguments, trust_.cluster)),
      metrics_({}, {}),
      admin_(
          server_.base().io.at(0), metrics_, [this] { return tell_readiness(); },
          server_.base().clock, server_.base().random) {}

ServerProcess::~ServerProcess() {
  leaving_.store(true);
  if (follower_) follower_->stop();
  if (clocks_) clocks_->stop();
  server_.end_watch();
  if (others_) others_->stop();
  server_.base().io.stop();  // no coroutine runs while the parts go
  if (server_.close(disk_call_max_) > 0) exit_now(kExitFailed);
}

Result<> ServerProcess::open() {
  if (!arguments_.map.empty()) {
    const MapSourceParts parts{server_.base().clock, server_.base().random, trust_.cluster};
    TRY(source, open_map_source(arguments_.map, parts));
    source_ = std::move(source);
  }
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
                   terms_of(trust_, PeerRole::server, arguments_.listen.value()),
                   {},
                   {},
                   {},
                   {},
                   trust_.tls});
  parts->volumes = [&volumes] { return volumes.clients(); };
  parts->find = [&volumes](VolumeId id) { return volumes.client(id); };
  parts->stamp = [&volumes] {
    const auto map = volumes.map();
    return map ? stamp_of(*map) : MapStamp{};
  };
  parts->leaving = [this] { return leaving_.load(); };
  parts->describe = [this] { return describe(); };
  parts->hear = [this](std::vector<wire::Place> places) { others_->hear(places); };
  parts->places = [this] { return moved_places(); };
  parts->budget = &base.budget;
  return parts;
}

// All are called on the thread of the admin port, the first one, to which the work belongs.
void ServerProcess::add_collectors() {
  add_collectors_of_peers(metrics_, *others_);
  clocks_->add_collectors(metrics_);
  add_collectors_of_served_calls(metrics_, *peers_);
  add_collectors_of_cluster(metrics_, [this]() -> const Membership* {
    return work_ ? &work_->objects->membership() : nullptr;
  });
  add_collectors_of_memory(metrics_, server_.base().budget);
  add_collectors_of_shares(metrics_, arguments_.shares.memory);
  add_collector_of_locks(metrics_);
  add_collectors_of_background(
      metrics_, [this] { return work_ ? work_->background->status() : BackgroundStatus{}; });
  add_collectors_of_process(metrics_);
}

Result<> ServerProcess::serve(const Endpoint& peers, const Endpoint& admin) {
  IoThreads& io = server_.base().io;
  auto stamp = [&volumes = server_.volumes()] {
    const auto map = volumes.map();
    return map ? stamp_of(*map) : MapStamp{};
  };
  others_ = make_peers(server_.base(), trust_, PeerRole::server, arguments_.listen.value(),
                       std::move(stamp), [this] { return own_places(); });
  clocks_ = std::make_unique<ClockWatch>(*others_, server_.base().clock, true);
  follower_ = make_follower();
  peers_ = std::make_unique<PeerServer>(contexts_of(io), service_parts(),
                                        arguments_.shares.memory.connections);
  add_collectors();
  const auto serve = [&] { return peers_->listen(peers.address, peers.port); };
  CHECK_OK(call_on(io.at(0), serve, "start"));
  listening_ = endpoint_text(peers.address, peers_->port());
  tell_address(peers);
  for (const std::string& peer : arguments_.peers) (void)others_->server(peer);  // connects
  const auto tell = [&] { return admin_.listen(admin.address, admin.port); };
  CHECK_OK(call_on(io.at(0), tell, "start"));
  begin_admissions();
  server_.begin_watch();
  follower_->start(io.at(0).get_executor());
  clocks_->start(io.at(0).get_executor());
  if (source_ && source_->keeps_announcements()) {
    constexpr ReportThrown kEnded{"the announcement of the volumes"};
    // Who waits until it is ready may then take its volumes into the map.
    wait_on(io.at(0), announce_once(), "start");
    auto tell_source = [this] { return announce(); };
    boost::asio::co_spawn(io.at(0), keep_running(server_.base().clock, kEnded.where, tell_source),
                          kEnded);
  }
  announced_.store(true);
  const auto states = server_.volumes().states();
  log_event(LogLevel::info, "server_ready",
            {{"listen", endpoint_text(peers.address, peers_->port())},
             {"admin", endpoint_text(admin.address, admin_.port())},
             {"cluster", cluster_text(trust_.cluster)},
             {"volumes_open", std::to_string(server_.volumes().clients().size()) + "/" +
                                  std::to_string(states.size())}});
  return {};
}

// Where others reach this server: nowhere, if it listens at all addresses and nobody says at which.
void ServerProcess::tell_address(const Endpoint& peers) {
  if (arguments_.address.empty() && (peers.address == "0.0.0.0" || peers.address == "::")) {
    log_event(LogLevel::warn, "address_not_announced",
              {{"meaning",
                "it listens at all addresses: others find it where the map says, unless "
                "--address says where"}});
    return;
  }
  address_.store(std::make_shared<const std::string>(address()));
}

// What this server says of itself: wherever a map says that its volumes are, they are here.
std::vector<wire::Place> ServerProcess::own_places() {
  std::vector<wire::Place> places;
  const auto address = address_.load();
  if (address == nullptr) return places;
  for (const auto& slot : server_.volumes().slots()) {
    if (!slot->volume) continue;
    const auto status = slot->volume->status();
    const bool used =
        status.state == VolumeStatus::State::open || slot->volume->waits_for_admission();
    if (!used) continue;
    places.push_back({slot->entry.id, slot->volume->start_counter(), since_, *address});
  }
  return places;
}

// What it passes on of others: where the map does not say it already.
std::vector<wire::Place> ServerProcess::moved_places() {
  auto places = others_->places();
  const auto map = server_.volumes().map();
  std::erase_if(places, [&map](const wire::Place& place) {
    const MapVolume* entry = map ? map->find(place.volume) : nullptr;
    return entry != nullptr && entry->address == place.address;
  });
  return places;
}

// R13. The volumes wait until others have said that they are no old copies.
void ServerProcess::begin_admissions() {
  auto connect = [this](const MapVolume& volume) { return client_of(volume); };
  admissions_ = std::make_unique<VolumeAdmissions>(
      server_.base().io.at(0), server_.base().clock, boot_id(),
      hex_name(server_.base().random.next()), server_.volumes().slots(), connect,
      [this] { return server_.volumes().map(); });
  server_.volumes().on_failure([this](VolumeId id) { admissions_->tell_failure(id); });
  admissions_->begin();
}

std::shared_ptr<VolumeClient> ServerProcess::client_of(const MapVolume& volume) {
  if (auto own = server_.volumes().client(volume.id)) return own;
  return others_->volume(volume.id, volume.address);
}

// ---- the map

std::unique_ptr<MapFollower> ServerProcess::make_follower() {
  FollowerParts parts{server_.base().clock, source_.get(), {}, {}, {}, {}, {}, {}, {}};
  parts.current = [this] { return server_.volumes().map(); };
  parts.take = [this](const std::shared_ptr<const ClusterMap>& map, SameEpoch other) {
    return take_map(map, other);
  };
  parts.clients = [this](const ClusterMap* map) { return volumes_to_ask(map); };
  parts.own = [this] { return server_.volumes().clients(); };
  parts.moved = [this] { return has_moved(); };
  parts.misses = [this] { return work_ && misses_volumes(work_->objects->membership()); };
  parts.meet = [this](const std::vector<Announcement>& announced) {
    meet_servers(*others_, work_->objects->membership(), announced);
  };
  parts.apart = [this](const std::vector<VolumeId>& ids) {
    if (work_) work_->objects->membership().report_apart(ids);
  };
  return std::make_unique<MapFollower>(std::move(parts));
}

// All that the map names, which may be one that is only looked at, and, until this process is at a
// map, all that the maps of the own volumes name.
VolumeClients ServerProcess::volumes_to_ask(const ClusterMap* map) {
  VolumeClients clients = server_.volumes().clients();
  std::set<VolumeId> asked;
  for (const auto& client : clients) asked.insert(client->id());
  const auto add = [&](const ClusterMap& named) {
    for (const MapVolume& volume : named.volumes) {
      if (!asked.insert(volume.id).second) continue;
      clients.push_back(others_->volume(volume.id, volume.address));
    }
  };
  if (map != nullptr) add(*map);
  if (server_.volumes().map() != nullptr) return clients;
  const auto texts = own_maps();
  for (const std::string& text : std::set<std::string>(texts.begin(), texts.end())) {
    if (const auto held = ClusterMap::parse(text)) add(*held);
  }
  return clients;
}

std::vector<std::string> ServerProcess::own_maps() {
  std::vector<std::string> texts;
  for (const auto& slot : server_.volumes().slots()) {
    if (slot->volume) texts.push_back(slot->volume->get_map());
  }
  return texts;
}

// Has an own volume adopted a map since the last call, or has a round learned a newer one?
bool ServerProcess::has_moved() {
  auto texts = own_maps();
  const bool adopted = texts != looked_at_;
  looked_at_ = std::move(texts);
  const auto map = server_.volumes().map();
  const bool learned = work_ && map && work_->objects->membership().map()->digest != map->digest;
  return adopted || learned;
}

std::string ServerProcess::address() const {
  return arguments_.address.empty() ? listening_ : arguments_.address;
}

Announcement ServerProcess::announcement() {
  Announcement announcement{address(), arguments_.host, arguments_.zone, {}};
  for (const auto& client : server_.volumes().clients()) {
    announcement.volumes.push_back({client->id(), client->status().total_bytes});
  }
  return announcement;
}

// While the source is away the follower says so.
Awaitable<void> ServerProcess::announce_once() {
  auto words = announcement();
  if (words.volumes.empty()) co_return;
  const Deadline until = server_.base().clock.boot() + kAnnouncePatience;
  const auto said = co_await source_->announce(std::move(words), until);
  const bool away =
      !said && (said.error().code == Errc::unavailable || said.error().code == Errc::timeout);
  if (away) co_return;
  const std::string reason = said ? "" : said.error().context;
  if (std::exchange(not_announced_, reason) == reason || said) co_return;
  log_event(LogLevel::warn, "not_announced", {{"reason", reason}});
}

Awaitable<void> ServerProcess::announce() {
  Clock& clock = server_.base().clock;
  while (true) {
    co_await clock.sleep_until(next_whole(clock.boot(), kAnnounceEvery));
    if (leaving_.load()) co_return;
    co_await announce_once();
  }
}

// A map that the parts do not take is not this process's: the next look tries again.
Result<> ServerProcess::take_map(const std::shared_ptr<const ClusterMap>& map, SameEpoch other) {
  const auto before = server_.volumes().map();
  if (work_ != nullptr) {
    CHECK_OK(work_->objects->membership().adopt(map, other));
  } else if (!server_.volumes().clients().empty()) {  // else there is nothing to work for
    CHECK_OK(begin_work(map));
  }
  server_.volumes().take_map(map, other);
  if (before) move_volumes(*others_, before.get(), *map);
  return {};
}

Result<> ServerProcess::begin_work(std::shared_ptr<const ClusterMap> map) {
  ProcessBase& base = server_.base();
  auto connect = [this](const MapVolume& volume) { return client_of(volume); };
  std::vector<VolumeId> own;
  for (const auto& client : server_.volumes().clients()) own.push_back(client->id());
  auto work = std::make_unique<Work>();
  TRY(objects, ObjectStack::make(ObjectStackParts{
                   map, clients_of(*map, connect), connect, base.clock, base.random, base.buffers,
                   base.budget, base.codecs, config_.removal.lease, config_.removal.hint_delay,
                   changes_of(*others_)}));
  work->objects = std::move(objects);
  ObjectStack& parts = *work->objects;
  work->background = std::make_unique<BackgroundWork>(
      BackgroundContext{parts.membership(), parts.proposer(), parts.index(), parts.blobs(),
                        parts.objects(), parts.clock(), std::move(own), config_.removal});
  parts.begin_probes(base.io.at(0));
  work->background->start(base.io.at(0).get_executor());
  work_ = std::move(work);
  begun_.store(work_.get());
  log_event(LogLevel::info, "map_taken", {{"epoch", std::to_string(map->epoch.value)}});
  return {};
}

std::string ServerProcess::describe() {
  const Clock& clock = server_.base().clock;
  ServerDescription told;
  told.version = kProgramVersion;
  told.host = arguments_.host;
  told.zone = arguments_.zone;
  told.wall = clock.wall();
  told.runs_for = clock.boot() - started_;
  told.leaving = leaving_.load();
  const auto map = server_.volumes().map();
  if (map) {
    told.epoch = map->epoch;
    told.digest = hex_encode(std::as_bytes(std::span(map->digest)));
  }
  for (const auto& volume : server_.volumes().states()) {
    told.volumes.push_back({volume.id, volume.path, volume.status, volume.damaged_reads});
  }
  for (const PeerServer::Peer& peer : peers_->peers()) {
    if (peer.role != PeerRole::gateway) continue;
    told.gateways.push_back({peer.name, peer.address, peer.map_epoch, peer.connected_for});
  }
  const Work* work = begun_.load();
  if (work == nullptr) return description_text(told);
  for (const auto& [what, job] : work->background->status().jobs) {
    told.jobs.push_back(
        {what, job.running, job.done, job.total, job.per_second, clock.boot() - job.since});
  }
  const Membership& membership = work->objects->membership();
  for (const MapVolume& volume : membership.map()->volumes) {
    if (membership.suspect(volume.id)) told.suspects.push_back(volume.name);
    if (membership.is_apart(volume.id)) told.apart.push_back(volume.name);
  }
  return description_text(told);
}

// On the thread of the admin port, as the collectors.
Readiness ServerProcess::tell_readiness() {
  Readiness readiness;
  auto& volumes = server_.volumes();
  const auto map = volumes.map();
  const auto states = volumes.states();
  std::string why = leaving_.load() ? "it stops" : why_not_ready(states, map.get());
  if (why.empty() && !announced_.load()) why = "it has not announced itself yet";
  readiness.ready = why.empty();
  readiness.text = readiness.ready ? "ready\n" : "not ready: " + why + "\n";
  readiness.text += own_state(states, map.get()) + "\n";
  for (const auto& volume : states) {
    readiness.text += volume_line(name_of(volume, map.get()), volume.status, false, false);
  }
  for (const auto& server : others_->servers()) {
    if (!server->is_refused()) continue;
    readiness.text += "refused: " + printable(server->status(VolumeId{}).reason) + "\n";
  }
  if (work_) {
    const Membership& membership = work_->objects->membership();
    readiness.text += apart_lines(findings_of(membership, *membership.map()));
  }
  readiness.text += map_lines(follower_->state()) + clock_lines(clocks_->report());
  readiness.text += memory_line(arguments_.shares.memory);
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
  follower_->stop();
  clocks_->stop();
  stop_limit_.begin();
  // Before the admissions: they tell others which volumes its last look finds failed.
  stop_limit_.waits_for("the watch over volumes");
  server_.end_watch();
  IoThreads& io = server_.base().io;
  stop_limit_.waits_for("the admission of volumes");
  admissions_->stop();
  wait_on(io.at(0), admissions_->finish(), "end");
  stop_limit_.waits_for("background work");
  wait_on(io.at(0), end_work(), "end");
  stop_limit_.waits_for("calls of peers");
  wait_on(io.at(0), peers_->stop(Duration(kPeerDrain)), "end");
  stop_limit_.waits_for("the admin port");
  (void)wait_on(io.at(0), admin_.stop(Duration(kAdminDrain)), "end");
  others_->stop();
  others_->wait_ended(kLinksEnd);
  stop_limit_.waits_for("volumes");
  const std::size_t stalled = server_.close(disk_call_max_);
  io.stop();
  if (stalled > 0) {
    log_event(LogLevel::warn, "stopped", {{"volumes_left_behind", std::to_string(stalled)}});
    exit_now(kExitStuck);
  }
  stop_limit_.ended();
  log_event(LogLevel::info, "stopped");
}

}  // namespace penstock
