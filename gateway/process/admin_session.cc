#include "gateway/process/admin_session.h"

#include <algorithm>
#include <utility>

#include "gateway/cluster_file.h"
#include "penstock/fan_out.h"
#include "server/membership/map_survey.h"

namespace penstock {
namespace {

constexpr Duration kWantedPatience = std::chrono::seconds(15);
constexpr Duration kPatience = std::chrono::milliseconds(2500);
constexpr Duration kLook = std::chrono::milliseconds(10);
constexpr int kRounds = 3;  // servers name volumes, whose maps name servers

struct Measured {
  ServerDescription told;
  Duration round_trip{};
  Duration clock_ahead{};
};

Task<Measured> describe(std::shared_ptr<RemoteServer> server, Clock* clock, Deadline deadline) {
  const BootTime asked = clock->boot();
  CO_TRY(text, co_await server->describe(deadline));
  const BootTime answered = clock->boot();
  const WallTime now = clock->wall();
  CO_TRY(told, read_description(text));
  Measured measured;
  measured.round_trip = answered - asked;
  measured.clock_ahead = told.wall - (now - measured.round_trip / 2);
  measured.told = std::move(told);
  co_return measured;
}

void add_addresses(const std::shared_ptr<const ClusterMap>& map, std::set<std::string>& addresses) {
  if (!map) return;
  for (const MapVolume& volume : map->volumes) {
    if (!volume.address.empty()) addresses.insert(volume.address);
  }
}

}  // namespace

const FoundServer* ClusterLook::server(const std::string& address) const {
  const auto same = [&](const FoundServer& server) { return server.address == address; };
  const auto at = std::find_if(servers.begin(), servers.end(), same);
  return at == servers.end() ? nullptr : &*at;
}

const DescribedVolume* ClusterLook::volume(VolumeId id) const {
  for (const FoundServer& server : servers) {
    if (!server.told) continue;
    for (const DescribedVolume& volume : server.told->volumes) {
      if (volume.id == id) return &volume;
    }
  }
  return nullptr;
}

std::string ClusterLook::address_of(const MapVolume& entry) const {
  const auto place = places.find(entry.id);
  return place == places.end() ? entry.address : place->second;
}

AdminSession::AdminSession(const Trust& trust, const std::string& name)
    : trust_(trust), base_(ProcessOptions{}) {
  peers_ = make_peers(base_, trust_, PeerRole::admin, name, {});
}

AdminSession::~AdminSession() {
  peers_->stop();
  base_.io.stop();  // no coroutine runs while the parts go
}

Result<std::unique_ptr<AdminSession>> AdminSession::open(const ReachArguments& given,
                                                         const std::string& name) {
  TRY(reach, complete_reach(given));
  TRY(trust, read_trust(reach.trust, PeerRole::admin));
  std::unique_ptr<AdminSession> session(new AdminSession(trust, name));
  session->named_ = reach.servers;
  if (!reach.map.empty()) {
    TRY(source, open_map_source(reach.map, MapSourceParts{session->base_.clock,
                                                          session->base_.random, trust.cluster}));
    session->source_ = std::move(source);
  }
  return session;
}

std::shared_ptr<VolumeClient> AdminSession::client(VolumeId id, const std::string& address) {
  return peers_->volume(id, address);
}

std::vector<std::shared_ptr<VolumeClient>> AdminSession::clients(const ClusterMap& map,
                                                                 const ClusterLook& look) {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const MapVolume& entry : map.volumes) {
    const std::string address = look.address_of(entry);
    if (!address.empty()) clients.push_back(client(entry.id, address));
  }
  return clients;
}

Task<> AdminSession::connect(std::set<std::string> addresses, Duration patience) {
  std::vector<std::shared_ptr<RemoteServer>> waited;
  for (const std::string& address : addresses) {
    if (servers_.contains(address)) continue;
    waited.push_back(servers_[address] = peers_->server(address));
  }
  const BootTime until = base_.clock.boot() + patience;
  // One that refuses this process will do so again; one that does not listen may be starting.
  const auto silent = [](const auto& server) {
    return !server->volumes() && !server->is_refused();
  };
  while (std::any_of(waited.begin(), waited.end(), silent) && base_.clock.boot() < until) {
    co_await base_.clock.sleep_until(base_.clock.boot() + kLook);
  }
  co_return Result<>{};
}

// Also fills `look.places`.
std::vector<std::shared_ptr<VolumeClient>> AdminSession::found_clients(ClusterLook& look) {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const auto& [address, server] : servers_) {
    const auto volumes = server->volumes();
    if (!volumes) continue;
    for (const VolumeId id : *volumes) {
      if (look.places.emplace(id, address).second) clients.push_back(client(id, address));
    }
  }
  return clients;
}

Task<> AdminSession::describe_all(ClusterLook& look) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const Deadline until = base_.clock.boot() + kPatience;
  FanOut<Measured> calls;
  for (const auto& [address, server] : servers_) {
    calls.start(executor, describe(server, &base_.clock, until));
  }
  co_await calls.wait_all(base_.clock, until);
  auto answers = calls.take();
  std::size_t index = 0;
  for (const auto& [address, server] : servers_) {
    FoundServer found;
    found.address = address;
    const auto volumes = server->volumes();
    if (volumes) found.volumes = *volumes;
    if (!volumes) found.trouble = server->status(VolumeId{}).reason;
    auto& answer = answers[index++];
    if (answer && *answer) {
      found.trouble.clear();
      found.round_trip = (*answer)->round_trip;
      found.clock_ahead = (*answer)->clock_ahead;
      found.told = std::move((*answer)->told);
    } else if (found.trouble.empty()) {
      found.trouble = answer ? answer->error().context : "no answer in time";
    }
    look.servers.push_back(std::move(found));
  }
  co_return Result<>{};
}

Task<ClusterLook> AdminSession::look(std::vector<std::string> wanted) {
  ClusterLook look;
  std::set<std::string> first(wanted.begin(), wanted.end());
  CO_CHECK(co_await connect(std::move(first), kWantedPatience));
  std::set<std::string> addresses(named_.begin(), named_.end());
  std::shared_ptr<const ClusterMap> head;
  if (source_) {
    const Deadline until = base_.clock.boot() + kPatience;
    const auto read = co_await source_->read(until);
    if (read) head = read->map;  // what failed, look_at_maps() tells
    auto announced = co_await source_->announced(until);
    if (announced) look.announced = std::move(*announced);
  }
  add_addresses(head, addresses);
  for (const Announcement& server : look.announced) addresses.insert(server.address);
  std::map<VolumeId, std::string> known;  // by any map
  std::vector<std::shared_ptr<VolumeClient>> clients;
  MapSurvey survey;
  for (int round = 0; round < kRounds && (round == 0 || !addresses.empty()); ++round) {
    auto asked = std::move(addresses);
    addresses.clear();
    CO_CHECK(co_await connect(std::move(asked), kPatience));
    auto found = found_clients(look);
    clients.insert(clients.end(), found.begin(), found.end());
    const Deadline until = base_.clock.boot() + kPatience;
    const auto held = co_await survey.ask(std::move(found), base_.clock, until);
    for (const HeldMap& each : held) {
      add_addresses(each.map, addresses);
      if (!each.map) continue;
      for (const MapVolume& volume : each.map->volumes) known.emplace(volume.id, volume.address);
    }
    for (const wire::Place& place : peers_->places()) {  // where servers say that they moved to
      if (known.contains(place.volume)) addresses.insert(place.address);
    }
    std::erase_if(addresses, [this](const auto& address) { return servers_.contains(address); });
  }
  if (head) {
    for (const MapVolume& volume : head->volumes) known.emplace(volume.id, volume.address);
  }
  for (const auto& [id, address] : known) {
    if (!look.places.contains(id) && !address.empty()) clients.push_back(client(id, address));
  }
  const Deadline until = base_.clock.boot() + kPatience;
  look.maps = co_await look_at_maps(source_.get(), std::move(clients), base_.clock, until);
  CO_CHECK(co_await describe_all(look));
  co_return look;
}

}  // namespace penstock
