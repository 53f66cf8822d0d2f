#include "tests/sim/map_stage.h"

#include <algorithm>
#include <set>
#include <utility>

namespace penstock::sim {
namespace {

constexpr SimMicros kWatchEvery = 2 * kMillisecond;
constexpr SimMicros kFollowersEnd = 45 * kSecond;  // a wait for the source takes 30 s
constexpr Duration kDriverPatience = std::chrono::seconds(5);

// A bit of a bound that the bodies of these worlds do not come near: a ring, which costs more than
// all else, stays as it is.
std::uint64_t note_of(int change) { return std::uint64_t{4096} << change; }

MapStage::Map parse(const std::string& text) {
  auto map = ClusterMap::parse(text);
  return map ? std::make_shared<const ClusterMap>(std::move(*map)) : nullptr;
}

Task<MapLook> look_task(MapSource& source, VolumeClients clients, Clock& clock, Deadline until) {
  co_return co_await look_at_maps(&source, std::move(clients), clock, until);
}

}  // namespace

MapStage::MapStage(SimClusters& clusters, std::uint32_t volumes, int gateways)
    : Stage(clusters, volumes, gateways),
      source_(time(), std::make_shared<const ClusterMap>(map())) {
  for (int i = 0; i < gateways; ++i) add_follower_of(i);
  for (std::uint32_t i = 0; i < volumes; ++i) {
    servers_.push_back(std::make_shared<Followed>());
    servers_.back()->name = "volume " + std::to_string(i);
    servers_.back()->is_volume = true;
    kill(i);
    start(i);
  }
  watch();
  run_for(2 * kSecond);
}

MapStage::~MapStage() {
  *watching_ = false;
  source_.state = SimMapSource::State::sound;
  for (const auto& all : {gateways_, servers_}) {
    for (const auto& process : all) process->follower->stop();
  }
  run_for(kFollowersEnd);
  // What a server's follower borrows of its process holds the process.
  for (const auto& all : {gateways_, servers_}) {
    for (const auto& process : all) process->follower.reset();
  }
}

// ---- processes

VolumeClients MapStage::clients_of(const ClusterMap* map) {
  VolumeClients clients = links();
  if (map == nullptr) return clients;
  std::erase_if(clients, [map](const auto& client) { return map->find(client->id()) == nullptr; });
  return clients;
}

MapSource& MapStage::open_source(Clock& clock, std::size_t half) {
  handles_.push_back(source_.open(clock, half));
  return *handles_.back();
}

FollowerParts MapStage::parts_of(std::size_t index, Clock& clock) {
  FollowerParts parts{
      clock, &open_source(clock, index % SimMapSource::kHalves), {}, {}, {}, {}, {}, {}, {}};
  parts.clients = [this](const ClusterMap* map) { return clients_of(map); };
  parts.own = [] { return VolumeClients(); };
  parts.moved = [] { return false; };
  parts.misses = [] { return false; };
  return parts;
}

void MapStage::follow_with(Followed& process, FollowerParts parts) {
  process.follower = std::make_shared<MapFollower>(std::move(parts));
  process.follower->start(time().io().get_executor());
}

void MapStage::add_follower_of(int gateway) {
  Membership& membership = this->gateway(gateway).membership();
  FollowerParts parts = parts_of(gateways_.size(), this->gateway(gateway).clock());
  parts.current = [&membership] { return membership.map(); };
  parts.take = [&membership](const Map& map, SameEpoch other) -> Result<> {
    CHECK_OK(membership.adopt(map, other));
    return {};
  };
  gateways_.push_back(std::make_shared<Followed>());
  gateways_.back()->name = "gateway " + std::to_string(gateway);
  follow_with(*gateways_.back(), std::move(parts));
}

MapStage::Map MapStage::map_of_volume(std::size_t volume) {
  const auto open = this->volume(volume).opened();
  return open ? parse(open->get_map()) : nullptr;
}

void MapStage::kill(std::size_t server) {
  if (servers_[server]->follower) servers_[server]->follower->stop();
  volume(server).kill();
}

void MapStage::start(std::size_t server) {
  SimVolume& own = volume(server);
  if (!own.start()) return expect(false, "a volume does not start");
  Followed& process = *servers_[server];
  const Map map = map_of_volume(server);
  process.current = map && map->find(own.id()) != nullptr ? map : nullptr;
  FollowerParts parts = parts_of(server, own.clock());
  parts.current = [kept = servers_[server]] { return kept->current; };
  parts.take = [kept = servers_[server]](Map newer, SameEpoch) -> Result<> {
    kept->current = std::move(newer);
    return {};
  };
  parts.own = [life = own.opened(), &own] {
    VolumeClients clients;
    if (own.opened() == life) clients.push_back(life);
    return clients;
  };
  follow_with(process, std::move(parts));
}

std::size_t MapStage::add_server(const MapVolume& entry) {
  const std::size_t server = add_volume(entry);
  servers_.push_back(std::make_shared<Followed>());
  servers_.back()->name = "volume " + std::to_string(server);
  servers_.back()->is_volume = true;
  kill(server);
  start(server);
  return server;
}

// ---- what must hold all the time

void MapStage::look_at(Followed& process, const Map& map) {
  if (!map || process.seen == map) return;
  const Map before = std::exchange(process.seen, map);
  if (before && map->epoch < before->epoch) {
    expect(false, process.name + " goes back to an older map");
  }
  // A gateway may have followed a head that no volume took. Only what most hold takes it back.
  const bool changed = before && map->epoch == before->epoch && map->digest != before->digest;
  if (changed && (process.is_volume || !held_by_most(*map))) {
    expect(false, process.name + " changes the map of an epoch");
  }
  const Map& first = maps_.emplace(map->epoch.value, map).first->second;
  expect(!source_.kept_its_word() || first->digest == map->digest,
         "two maps of one epoch are adopted, the second one by " + process.name);
}

// By a majority of each list of each group: one that is in no list has no voice.
bool MapStage::held_by_most(const ClusterMap& map) {
  std::set<VolumeId> holders;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const Map own = map_of_volume(i);
    if (own && own->digest == map.digest) holders.insert(volume(i).id());
  }
  const auto most = [&holders](const auto& list) {
    const auto held =
        std::ranges::count_if(list, [&](VolumeId id) { return holders.contains(id); });
    return list.empty() || 2 * static_cast<std::size_t>(held) > list.size();
  };
  return std::ranges::all_of(map.groups, [&most](const MapGroup& group) {
    return most(group.replicas) && most(group.joint);
  });
}

void MapStage::watch() {
  if (!*watching_) return;
  for (std::size_t i = 0; i < gateways_.size(); ++i) {
    look_at(*gateways_[i], map_of_gateway(static_cast<int>(i)));
  }
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const auto open = volume(i).opened();
    if (!open || open->map_hash() == servers_[i]->hash) continue;
    servers_[i]->hash = open->map_hash();
    const Map map = map_of_volume(i);
    if (map && map->find(volume(i).id()) != nullptr) look_at(*servers_[i], map);
  }
  time().after(kWatchEvery, [this, watching = watching_] {
    if (*watching) watch();
  });
}

// ---- drivers

MapLook MapStage::look(std::size_t half) {
  Clock& clock = driver_clock();
  auto looked = wait(look_task(open_source(clock, half), clients_of(nullptr), clock,
                               clock.boot() + kDriverPatience));
  return looked ? std::move(*looked) : MapLook();
}

bool MapStage::knows_of(const ClusterMap& map, int change) {
  if (change == 0) return true;
  return (map.policy.replicated_bytes_max & note_of(change)) != 0;
}

ClusterMap MapStage::next_of(const ClusterMap& map, int change) {
  ClusterMap next = map;
  next.policy.replicated_bytes_max |= note_of(change);
  auto raised = past_epoch(next, map.epoch);
  return raised ? std::move(*raised) : next;
}

Result<MapChanged> MapStage::change(MapLook look, int change, std::size_t half,
                                    std::size_t reached) {
  if (!look.verdict.follow) return fail(Errc::unavailable, "there is no map");
  ClusterMap next = next_of(*look.verdict.follow, change);
  return change_to(std::move(look), std::move(next), half, reached);
}

Result<MapChanged> MapStage::change_to(MapLook look, ClusterMap next, std::size_t half,
                                       std::size_t reached) {
  Clock& clock = driver_clock();
  VolumeClients clients = clients_of(&next);
  clients.resize(std::min(reached, clients.size()));
  return wait(change_map(open_source(clock, half), std::move(look), std::move(next),
                         std::move(clients), clock, clock.boot() + kDriverPatience));
}

Result<MapChanged> MapStage::restore(std::size_t half) {
  MapLook seen = look(half);
  Clock& clock = driver_clock();
  return wait(restore_map(open_source(clock, half), std::move(seen), clients_of(nullptr), clock,
                          clock.boot() + kDriverPatience));
}

// ---- what is to come of it

bool MapStage::agree() {
  const Map head = source_.head().map;
  if (!head) return false;
  for (int i = 0; i < gateways(); ++i) {
    if (map_of_gateway(i)->digest != head->digest) return false;
  }
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!running(i) || head->find(volume(i).id()) == nullptr) continue;
    const Map map = map_of_volume(i);
    if (!map || map->digest != head->digest) return false;
  }
  return true;
}

void MapStage::expect_served(const char* when) {
  for (int writer = 0; writer < gateways(); ++writer) {
    const std::string text = "text " + std::to_string(++written_);
    const bool put = ask(writer, "PUT", "served", text).status == 200;
    expect(put, std::string("a PUT fails ") + when);
    for (int reader = 0; reader < gateways() && put; ++reader) {
      const auto read = ask(reader, "GET", "served");
      expect(read.status == 200 && read.body == text, std::string("a GET fails ") + when);
    }
  }
}

}  // namespace penstock::sim
