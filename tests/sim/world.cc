#include "tests/sim/world.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cassert>

namespace penstock::sim {
namespace {

constexpr SimMicros kLoadLimit = 900 * kSecond;   // each operation has deadlines: none may hang
constexpr SimMicros kLastMessages = 2 * kSecond;  // the slowest have arrived by then
constexpr SimMicros kLastEnds = 45 * kSecond;     // what was left under way has ended by then

SimCluster make_cluster(SimClusters& clusters, const WorldPlan& plan) {
  SimCluster cluster = plan.cluster
                           ? clusters.on_servers(plan.servers, plan.volumes_each, plan.variant)
                           : clusters.get(plan.volumes, plan.variant);
  cluster.chain_max = plan.chain_max;
  return cluster;
}

}  // namespace

World::World(std::uint64_t seed, SimClusters& clusters, const WorldOptions& options)
    : random_(seed),
      plan_(draw_plan(random_, options)),
      cluster_(make_cluster(clusters, plan_)),
      losses_left_(cluster_.map->policy.losses_survived()),
      network_(time_, seed) {
  if (plan_.cluster) {
    if (plan_.replaces) source_ = std::make_unique<SimMapSource>(time_, cluster_.map);
    build_servers();
  } else {
    build();
  }
  start_ = volumes_.front()->clock().wall();
}

World::~World() {
  for (const auto& gateway : gateways_) {
    gateway->background().stop();
    gateway->replacement().stop();
  }
  if (plan_.cluster) {
    for (const auto& server : servers_) server->die(SimServer::End::killed);
    for (const auto& gateway : gateways_) gateway->kill();
  }
  // What waits in a volume's queue keeps the volume alive: it ends before the world does.
  time_.run_until([] { return false; }, time_.now() + 60 * kSecond);
  time_.drop_events();
}

void World::build() {
  for (const auto& entry : cluster_.map->volumes) {
    volumes_.push_back(
        std::make_shared<SimVolume>(time_, random_.bits(), entry, cluster_.map, plan_.volume));
    [[maybe_unused]] const auto formatted = volumes_.back()->format();
    assert(formatted);
    [[maybe_unused]] const auto started = volumes_.back()->start();
    assert(started);
  }
  std::vector<std::vector<VolumeId>> shares(static_cast<std::size_t>(plan_.gateways));
  for (std::size_t i = 0; i < volumes_.size(); ++i) {
    shares[i % shares.size()].push_back(volumes_[i]->id());
  }
  if (plan_.direct) shares.front().clear();  // whatever is there
  for (auto& share : shares) add_gateway(std::move(share));
}

std::shared_ptr<SimGateway> World::add_gateway(std::vector<VolumeId> local) {
  std::vector<std::shared_ptr<VolumeClient>> links;
  std::vector<std::shared_ptr<Wire>> wires;
  const auto link = [this](const std::shared_ptr<SimVolume>& volume, std::shared_ptr<Wire> wire) {
    return std::make_shared<SimLink>(time_, random_, faults_, volume, std::move(wire),
                                     plan_.direct);
  };
  for (std::size_t i = 0; i < plan_.volumes; ++i) {
    wires.push_back(std::make_shared<Wire>());
    links.push_back(link(volumes_[i], wires.back()));
  }
  SimGatewayParts parts;
  parts.connect = [this, link](const MapVolume& entry,
                               std::shared_ptr<Wire> wire) -> std::shared_ptr<VolumeClient> {
    for (const auto& volume : volumes_) {
      if (volume->id() == entry.id) return link(volume, std::move(wire));
    }
    return nullptr;
  };
  parts.host = std::make_shared<SimHost>(time_, random_.bits());
  parts.links = std::move(links);
  parts.wires = std::move(wires);
  parts.local = std::move(local);
  parts.page_rows = plan_.page_rows;
  gateways_.push_back(std::make_shared<SimGateway>(time_, cluster_, std::move(parts)));
  return gateways_.back();
}

std::shared_ptr<SimGateway> World::pick_gateway() {
  std::vector<std::shared_ptr<SimGateway>> alive;
  for (const auto& gateway : gateways_) {
    if (gateway->alive() && gateway->serves_clients()) alive.push_back(gateway);
  }
  return random_.pick(alive);
}

void World::make_clients() {
  const auto pick = [this] { return pick_gateway(); };
  for (int i = 0; i < plan_.clients; ++i) {
    clients_.push_back(std::make_shared<SimClient>(time_, random_, history_, pick, plan_.client));
  }
}

bool World::run_clients(Step step, Clients clients, SimMicros limit) {
  for (const auto& client : clients) {
    boost::asio::co_spawn(time_.io(), (client.get()->*step)(), boost::asio::detached);
  }
  const auto all_done = [&] {
    return std::all_of(clients.begin(), clients.end(),
                       [](const auto& client) { return client->finished(); });
  };
  return time_.run_until(all_done, time_.now() + limit);
}

void World::load() {
  const Clients first(clients_.data(), 1);
  if (!run_clients(&SimClient::make_first_bucket, first, kQuietLimit)) {
    history_.violation("CreateBucket hangs");
  }
  if (plan_.kind == WorldPlan::Kind::lists && !run_clients(&SimClient::fill, first, kQuietLimit)) {
    history_.violation("a PUT hangs without any fault");
  }
  faults_ = plan_.network;
  network_.faults() = plan_.streams;
  faults_on_ = true;
  schedule_faults();
  if (plan_.replaces) schedule_replacement();
  if (!run_clients(&SimClient::run, clients_, kLoadLimit)) {
    history_.violation("an operation hangs past its deadline");
  }
}

void World::await_servers() {
  time_.run_until([this] { return outages_ == 0; }, time_.now() + kLastEnds);
  await_admissions();
}

// All faults are over: what was under way ends, what was cut off is ended, and all is looked at.
void World::quiesce() {
  heal();
  await_servers();
  if (driver_) {
    if (!end_replacement()) return stop_background();
    await_servers();  // with the volume that left, its server died once more
  }
  time_.run_until([] { return false; }, time_.now() + kLastMessages);
  time_.run_until([this] { return at_rest(); }, time_.now() + kLastEnds);
  const Clients first(clients_.data(), 1);
  bool ended = run_clients(&SimClient::settle_bucket, first, kQuietLimit) &&
               run_clients(&SimClient::settle_uploads, clients_, kQuietLimit) &&
               run_clients(&SimClient::read_all, first, kQuietLimit);
  if (ended && plan_.reads_slowly) {
    ended = run_clients(&SimClient::read_slowly, first, kQuietLimit);
  }
  if (!ended) history_.violation("an operation hangs after all faults are over");
  if (ended) clean_up();
  if (!run_clients(&SimClient::look_at_side_buckets, clients_, kQuietLimit)) {
    history_.violation("a bucket hangs after all faults are over");
  }
  stop_background();
  // Reads that others overtook hold their memory until their own volume answers or times out.
  time_.run_until([] { return false; }, time_.now() + kLastEnds);
  check_rest();
  if (!ended || !history_.clean()) return;
  bool checked = false;
  boost::asio::co_spawn(time_.io(), check_objects(checked), boost::asio::detached);
  time_.run_until([&] { return checked; }, time_.now() + kQuietLimit);
  if (!checked) history_.violation("a look at the objects hangs");
  const bool all_readable = history_.unreadable().empty();
  if (!run_clients(&SimClient::write_all, first, kQuietLimit)) {
    history_.violation("a write hangs after all faults are over");
  }
  if (!all_readable || !lose_the_rest()) return;
  if (!run_clients(&SimClient::read_all, first, kQuietLimit)) {
    history_.violation("a read hangs after the last losses");
  }
  for (const auto& [key, why] : history_.unreadable()) {
    history_.violation(key + " is unreadable after the last losses: " + why);
  }
}

Verdict World::run() {
  make_clients();
  load();
  quiesce();
  for (const auto& client : clients_) client->note_uploads();
  Verdict verdict;
  verdict.violations = history_.check();
  verdict.unjudged = history_.unjudged();
  verdict.operations = history_.operation_count();
  verdict.world = describe(plan_);
  verdict.trace = time_.trace_hash();
  verdict.events = time_.events_run();
  verdict.simulated = time_.now();
  return verdict;
}

Verdict run_seed(std::uint64_t seed, SimClusters& clusters, const WorldOptions& options) {
  World world(seed, clusters, options);
  return world.run();
}

}  // namespace penstock::sim
