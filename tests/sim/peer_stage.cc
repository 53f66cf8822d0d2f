#include "tests/sim/peer_stage.h"

#include <algorithm>
#include <utility>

namespace penstock::sim {

PeerStage::PeerStage(SimClusters& clusters, std::uint32_t servers, std::uint32_t volumes_each)
    : network_(time(), 1),
      cluster_(clusters.on_servers(servers, volumes_each, 0)),
      place_(network_.add_place()) {
  network_.faults().delay_max = 10;
  SimVolumeOptions options;
  options.disk_delay_max = 10;
  options.reserve = true;
  options.start_lease = graces::kLease;
  for (const MapVolume& entry : map().volumes) {
    if (servers_.empty() || servers_.back()->address() != entry.address) {
      SimServerParts parts{time(), network_, cluster_, servers_.size() + 1, entry.address};
      servers_.push_back(std::make_shared<SimServer>(std::move(parts)));
      servers_.back()->host()->clock->agree();
    }
    volumes_.push_back(std::make_shared<SimVolume>(time(), volumes_.size() + 1, entry, cluster_.map,
                                                   options, servers_.back()->host()->clock));
    expect(volumes_.back()->format().has_value(), "a fresh volume cannot be made");
    servers_.back()->add(volumes_.back());
  }
  stamp = stamp_of(map());
  caller_ = std::make_shared<SimPeers>(time(), std::make_shared<SimHost>(time(), 77),
                                       std::make_shared<NetworkProcess>(network_, place_),
                                       make_terms(PeerRole::gateway, map().cluster, "caller"),
                                       [this] { return stamp; });
  caller_->host->clock->agree();
  for (std::size_t i = 0; i < volumes_.size(); ++i) remote(i);
  for (std::size_t i = 0; i < servers_.size(); ++i) start(i);
}

PeerStage::~PeerStage() {
  for (const auto& server : servers_) server->die(SimServer::End::killed);
  caller_->die(SimServer::End::killed);
  for (const auto& other : others_) other->die(SimServer::End::killed);
  run_for(60 * kSecond);
  time().drop_events();
}

std::shared_ptr<VolumeClient> PeerStage::remote(std::size_t volume) {
  return caller_->volume(map().volumes[volume]);
}

void PeerStage::cut_requests(std::size_t server, bool cut) {
  network_.cut(place_, servers_[server]->place(), cut);
}
void PeerStage::cut_answers(std::size_t server, bool cut) {
  network_.cut(servers_[server]->place(), place_, cut);
}
void PeerStage::break_off(std::size_t server) {
  network_.break_between(place_, servers_[server]->place());
}

SimPeers& PeerStage::add_caller(std::shared_ptr<const HelloTerms> terms) {
  others_.push_back(
      std::make_shared<SimPeers>(time(), std::make_shared<SimHost>(time(), 100 + others_.size()),
                                 std::make_shared<NetworkProcess>(network_, network_.add_place()),
                                 std::move(terms), [this] { return stamp; }));
  others_.back()->host->clock->agree();
  return *others_.back();
}

bool PeerStage::knows(std::size_t server) {
  const auto volumes = caller_->servers.server(servers_[server]->address())->volumes();
  if (!volumes || !servers_[server]->running()) return false;
  return std::all_of(volumes->begin(), volumes->end(),
                     [&](VolumeId id) { return servers_[server]->has(id); });
}

void PeerStage::start(std::size_t server) {
  if (!servers_[server]->running()) {
    servers_[server]->start([this](SimVolume&, const Error& error) {
      expect(false, "a volume does not start: " + error.context);
    });
    servers_[server]->work()->background().stop();
  }
  expect(run_until([&] { return knows(server); }), "a server is not met again");
  run_for(2 * kSecond);  // by then every one of its connections is
}

std::shared_ptr<AcceptRequest> PeerStage::accept_of(const std::string& key,
                                                    std::uint64_t later) const {
  const auto now = caller_->host->clock->wall().time_since_epoch().count();
  return plain_accept(map(), key, static_cast<std::uint64_t>(now) + later, later);
}

Ballot PeerStage::ballot_at(std::size_t volume, const std::string& key) {
  const auto client = volumes_[volume]->opened();
  if (!client) return {};
  const auto row = wait(client->read(read_of(key), volumes_[volume]->bound()));
  return row ? row->ballot : Ballot{};
}

}  // namespace penstock::sim
