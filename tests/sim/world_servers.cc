// A world of servers and gateways that are processes of their own, with connections between them.
#include <algorithm>
#include <cassert>

#include "tests/sim/world.h"

namespace penstock::sim {
namespace {

constexpr SimMicros kConnected = 2 * kSecond;  // by then all have met, where nothing fails
constexpr SimMicros kPauseMax = 40 * kSecond;
constexpr SimMicros kGentleEnd = 1'500'000;    // by then one that stops gently has gone
constexpr SimMicros kAdmitted = 60 * kSecond;  // by then volumes have admitted each other

}  // namespace

std::shared_ptr<SimServer> World::add_server() {
  SimServerParts parts{
      time_,           network_, cluster_, random_.bits(), server_address(servers_.size()),
      plan_.page_rows, true};
  if (source_) {
    parts.to_source = [source = source_.get()](std::shared_ptr<SimClock> clock, Map map) {
      return put_to_source(*source, std::move(clock), std::move(map));
    };
  }
  servers_.push_back(std::make_shared<SimServer>(std::move(parts)));
  return servers_.back();
}

void World::build_servers() {
  for (std::size_t i = 0; i < cluster_.map->volumes.size(); ++i) {
    const MapVolume& entry = cluster_.map->volumes[i];
    if (servers_.empty() || servers_.back()->address() != entry.address) add_server();
    SimServer& server = *servers_.back();
    assert(server.address() == entry.address);
    volumes_.push_back(std::make_shared<SimVolume>(time_, random_.bits(), entry, cluster_.map,
                                                   plan_.volume, server.host()->clock));
    [[maybe_unused]] const auto formatted = volumes_.back()->format();
    assert(formatted);
    server.add(volumes_.back());
  }
  for (const auto& server : servers_) start_server(*server);
  for (int i = 0; i < plan_.gateways; ++i) add_peer_gateway();
  time_.run_until([] { return false; }, time_.now() + kConnected);
  await_admissions();
}

// It goes by itself, or dies on the way; then another process begins.
void World::stop_gently(SimServer& server) {
  check_put_back();
  const SimMicros grace = random_.between(0, 2 * kSecond);
  server.stop_gently(Duration(grace));
  restart_server(server, grace + kGentleEnd + random_.between(1'000, plan_.outage_max));
}

void World::await_admissions() {
  const auto all = [this] {
    const bool replaced = driver_ && is_replaced();
    const VolumeId gone = replaced ? volumes_[leaving_]->id() : VolumeId{};
    return std::all_of(servers_.begin(), servers_.end(),
                       [gone](const auto& server) { return server->admitted(gone); });
  };
  if (!time_.run_until(all, time_.now() + kAdmitted)) {
    history_.violation("a volume is not admitted although its peers are there");
  }
}

std::shared_ptr<SimGateway> World::add_peer_gateway() {
  const Place place = network_.add_place();
  gateways_.push_back(make_peer_gateway(time_, network_, place, cluster_, random_.bits()));
  places_[gateways_.back().get()] = place;
  return gateways_.back();
}

SimServer& World::server_of(std::size_t volume) {
  const VolumeId id = volumes_[volume]->id();
  const auto at = std::find_if(servers_.begin(), servers_.end(),
                               [id](const auto& server) { return server->has(id); });
  assert(at != servers_.end());
  return **at;
}

void World::start_server(SimServer& server) {
  server.start([this](SimVolume& volume, const Error& error) {
    if (volume.damaged() || volume.full()) return;
    history_.violation("volume " + std::to_string(volume.id().value) +
                       " does not start: " + error.context);
  });
  gateways_.push_back(server.work());
  const bool drives = driver_ && !driver_->alive() && server.has(volumes_.back()->id());
  if (drives) drive_replacement(server.work());
}

void World::stop_server(SimServer& server, SimServer::End end) {
  check_put_back();
  server.die(end);
}

void World::restart_server(SimServer& server, SimMicros delay) {
  outage_after(delay, [this, &server] {
    if (!server.running()) start_server(server);
  });
}

void World::bring_back_servers() {
  for (const auto& server : servers_) {
    bool serves = server->running();
    for (const auto& volume : server->volumes()) {
      if (volume->lost()) continue;
      volume->disk().heal();
      const auto open = volume->opened();
      const bool there = open && (open->waits_for_admission() ||
                                  open->status().state == VolumeStatus::State::open);
      serves = serves && there;
    }
    if (serves) continue;
    stop_server(*server, SimServer::End::without_power);
    restart_server(*server, 1'000);
  }
}

// Of a gateway that clients ask, or of a server.
Place World::any_place() {
  if (random_.chance(0.6)) return places_.at(pick_gateway().get());
  return random_.pick(servers_)->place();
}

void World::cut_places(Place from, Place to) {
  if (from == to) return;
  if (random_.chance(0.5)) std::swap(from, to);
  network_.cut(from, to, true);
  time_.after(random_.between(10'000, plan_.outage_max), [this, from, to] {
    if (faults_on_) network_.cut(from, to, false);
  });
}

// Longer than the leases of fragments, now and then.
void World::pause_gateway() {
  const auto gateway = pick_gateway();
  if (gateway->clock().paused()) return;
  gateway->clock().pause();
  outage_after(random_.between(100'000, kPauseMax), [gateway] { gateway->clock().go_on(); });
}

void World::break_off() {
  const Place one = any_place();
  const Place other = random_.pick(servers_)->place();
  if (random_.chance(0.7)) return network_.break_between(one, other);
  network_.slow_down(one, other, random_.between(1'000, kSecond));
  time_.after(random_.between(10'000, plan_.outage_max), [this, one, other] {
    if (faults_on_) network_.slow_down(one, other, 0);
  });
}

}  // namespace penstock::sim
