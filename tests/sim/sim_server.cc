#include "tests/sim/sim_server.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

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
  work.connect = std::move(connect);
  work.connection_changes = [changes = process->others->servers.connection_changes()] {
    return changes->count();
  };
  // Named none, it would be all of the map.
  work.background = !work.local.empty();
  work.serves_clients = false;
  work.page_rows = parts_.page_rows;
  work.on_kill = [others = process->others] { others->die(End::killed); };
  process->work = std::make_shared<SimGateway>(parts_.time, parts_.cluster, std::move(work));
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
    const auto started = volume->start();
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
    if (!here) return;
    const auto connection =
        std::make_shared<ServedConnection>(std::move(stream), io.get_executor(), here->service);
    here->served.push_back(connection);
    boost::asio::co_spawn(io, serve(here, connection), boost::asio::detached);
  });
}

// Off the network first: what the volumes answer while they go must reach nobody.
void SimServer::die(End end) {
  if (!process_) return;
  const auto process = std::exchange(process_, nullptr);
  process->network->die(end);
  process->work->kill();
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
