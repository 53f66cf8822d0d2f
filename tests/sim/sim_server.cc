#include "tests/sim/sim_server.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "server/transport/connection_drain.h"

namespace penstock::sim {

struct SimServer::Process {
  Process(ByteNetwork& net, Place place) : network(std::make_shared<NetworkProcess>(net, place)) {}
  bool alive() const { return network->alive(); }
  MapStamp stamp() const { return stamp_of(*work->membership().map()); }

  const std::shared_ptr<NetworkProcess> network;
  std::shared_ptr<const ServiceParts> service;
  std::shared_ptr<SimPeers> others;
  std::shared_ptr<SimGateway> work;
  std::vector<std::shared_ptr<ServedConnection>> served;
  std::vector<std::unique_ptr<SimAdmission>> admissions;
  bool leaving = false;
};

SimServer::SimServer(SimServerParts parts)
    : parts_(std::move(parts)),
      host_(std::make_shared<SimHost>(parts_.time, parts_.seed)),
      place_(parts_.network.add_place()) {}

SimServer::~SimServer() = default;

void SimServer::remove(VolumeId id) {
  std::erase_if(volumes_, [id](const auto& volume) { return volume->id() == id; });
}

bool SimServer::has(VolumeId id) const {
  return std::any_of(volumes_.begin(), volumes_.end(),
                     [id](const auto& volume) { return volume->id() == id; });
}

std::shared_ptr<Volume> SimServer::opened(VolumeId id) const {
  for (const auto& volume : volumes_) {
    if (volume->id() == id) return volume->opened();
  }
  return nullptr;
}

bool SimServer::admitted(VolumeId gone) const {
  return std::none_of(volumes_.begin(), volumes_.end(), [gone](const auto& volume) {
    if (!volume->running() || volume->damaged() || volume->id() == gone) return false;
    return volume->opened()->waits_for_admission();
  });
}

const std::shared_ptr<SimGateway>& SimServer::work() const { return process_->work; }
std::size_t SimServer::connections() const { return process_ ? process_->served.size() : 0; }

std::shared_ptr<const ServiceParts> SimServer::service_parts(
    const std::shared_ptr<Process>& process) {
  auto service = std::make_shared<ServiceParts>(
      ServiceParts{*host_->clock,
                   host_->random,
                   host_->buffers,
                   make_terms(PeerRole::server, parts_.cluster.map->cluster, parts_.address),
                   {},
                   {},
                   {},
                   {}});
  const std::weak_ptr<Process> own = process;
  service->volumes = [this, own] {
    std::vector<std::shared_ptr<VolumeClient>> open;
    const auto here = own.lock();
    if (!here || !here->alive()) return open;
    for (const auto& volume : volumes_) {
      if (auto client = volume->opened()) open.push_back(std::move(client));
    }
    return open;
  };
  service->find = [this, own](VolumeId id) -> std::shared_ptr<VolumeClient> {
    const auto here = own.lock();
    return here && here->alive() ? opened(id) : nullptr;
  };
  service->leaving = [own] {
    const auto here = own.lock();
    return here && here->leaving;
  };
  service->stamp = [own] {
    const auto here = own.lock();
    return here ? here->stamp() : MapStamp{};
  };
  return service;
}

void SimServer::begin_work(const std::shared_ptr<Process>& process) {
  const std::weak_ptr<Process> own = process;
  auto stamp = [own, first = stamp_of(*parts_.cluster.map)] {
    const auto here = own.lock();
    return here && here->work ? here->stamp() : first;
  };
  process->others = std::make_shared<SimPeers>(
      parts_.time, host_, process->network,
      make_terms(PeerRole::server, parts_.cluster.map->cluster, parts_.address), std::move(stamp));
  auto connect = [this, others = process->others](
                     const MapVolume& entry,
                     const std::shared_ptr<Wire>&) -> std::shared_ptr<VolumeClient> {
    if (!others->network->alive()) return nullptr;
    if (auto own_volume = opened(entry.id)) return own_volume;
    return others->volume(entry);
  };
  SimGatewayParts work;
  work.host = host_;
  for (const MapVolume& entry : parts_.cluster.map->volumes) {
    work.links.push_back(connect(entry, nullptr));
  }
  for (const auto& volume : volumes_) {
    if (volume->opened()) work.local.push_back(volume->id());
  }
  if (parts_.admits) admit_volumes(*process, connect);
  work.connect = std::move(connect);
  work.connection_changes = [changes = process->others->servers.connection_changes()] {
    return changes->count();
  };
  // Named none, it would be all of the map.
  work.background = !work.local.empty();
  work.serves_clients = false;
  work.page_rows = parts_.page_rows;
  work.to_source = parts_.to_source;
  work.on_kill = [others = process->others] { others->die(End::killed); };
  process->work = std::make_shared<SimGateway>(parts_.time, parts_.cluster, std::move(work));
}

void SimServer::admit_volumes(Process& process, const SimGatewayParts::Connect& connect) {
  for (const auto& volume : volumes_) {
    if (!volume->opened()) continue;
    auto to_peer = [connect](const MapVolume& peer) { return connect(peer, nullptr); };
    process.admissions.push_back(std::make_unique<SimAdmission>(
        parts_.time, host_->random, *host_->clock, volume->opened(), std::move(to_peer)));
  }
}

Awaitable<void> SimServer::serve(std::shared_ptr<Process> process,
                                 std::shared_ptr<ServedConnection> connection) {
  const Result<> ended = co_await connection->run();
  (void)ended;
  std::erase(process->served, connection);
}

void SimServer::start(const OnRefused& on_refused) {
  for (const auto& volume : volumes_) {
    if (volume->running() || volume->lost()) continue;
    const auto started = volume->start(parts_.admits ? CountStart::later : CountStart::at_open);
    if (!started) on_refused(*volume, started.error());
  }
  const auto process = std::make_shared<Process>(parts_.network, place_);
  begin_work(process);
  process->service = service_parts(process);
  process_ = process;
  const std::weak_ptr<Process> own = process;
  auto& io = parts_.time.io();
  process->network->listen(parts_.address, [&io, own](std::unique_ptr<ByteStream> stream) {
    const auto here = own.lock();
    if (!here || here->leaving) return;
    const auto connection =
        std::make_shared<ServedConnection>(std::move(stream), io.get_executor(), here->service);
    here->served.push_back(connection);
    boost::asio::co_spawn(io, serve(here, connection), boost::asio::detached);
  });
}

// As server/transport/peer_server.h has it.
Awaitable<void> SimServer::drain(std::shared_ptr<Process> process, Duration grace) {
  DrainParts parts{*host_->clock, {}, {}, {}};
  parts.count = [process] { return process->served.size(); };
  parts.close_idle = [process] {
    const auto served = process->served;
    for (const auto& connection : served) connection->close_when_idle();
  };
  parts.close_all = [process] {
    const auto served = process->served;
    for (const auto& connection : served) connection->close();
  };
  co_await close_and_drain(std::move(parts), grace);
  if (process_ == process) die(End::killed);
}

void SimServer::stop_gently(Duration grace) {
  if (!process_ || process_->leaving) return;
  process_->leaving = true;
  process_->admissions.clear();
  process_->work->background().stop();
  boost::asio::co_spawn(parts_.time.io(), drain(process_, grace), boost::asio::detached);
}

// Off the network first: what the volumes answer while they go must reach nobody.
void SimServer::die(End end) {
  if (!process_) return;
  const auto process = std::exchange(process_, nullptr);
  process->network->die(end);
  process->work->kill();
  process->admissions.clear();
  const auto served = process->served;
  for (const auto& connection : served) connection->close();
  for (const auto& volume : volumes_) {
    if (volume->lost()) continue;
    if (end == End::killed) {
      volume->kill();
    } else {
      volume->crash();
    }
  }
  dead_.push_back(process);
}

}  // namespace penstock::sim
