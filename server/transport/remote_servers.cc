#include "server/transport/remote_servers.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "penstock/log.h"
#include "server/transport/places.h"

namespace penstock {

struct RemoteServers::State : std::enable_shared_from_this<RemoteServers::State> {
  State(std::vector<boost::asio::io_context*> all, std::shared_ptr<const LinkParts> links)
      : contexts(std::move(all)), parts(std::move(links)) {}

  struct Known {
    std::shared_ptr<RemoteVolume> volume;
    std::string address;  // as a map says
  };
  // Pre, of all: mutex is held.
  std::shared_ptr<RemoteServer> find_server(const std::string& address);
  void take(const wire::Place& place);
  bool is_used(const std::string& address) const;
  void find_volume(const std::shared_ptr<RemoteServer>& server, VolumeId id, bool open);

  void heard_status(const std::shared_ptr<RemoteServer>& server, const wire::ServerStatus& status);

  const std::vector<boost::asio::io_context*> contexts;
  const std::shared_ptr<const LinkParts> parts;
  const std::shared_ptr<RunningLinks> running = std::make_shared<RunningLinks>();
  mutable std::mutex mutex;  // guards what follows
  std::map<std::string, std::shared_ptr<RemoteServer>> servers;
  std::set<std::string> asked_for;  // by server()
  std::map<VolumeId, Known> volumes;
  Places places;
  std::vector<std::weak_ptr<RemoteServer>> left;  // somebody may still have volumes of them
  bool stopped = false;
};

std::shared_ptr<RemoteServer> RemoteServers::State::find_server(const std::string& address) {
  auto& server = servers[address];
  if (server == nullptr) {
    auto heard = [weak = weak_from_this()](const std::shared_ptr<RemoteServer>& from,
                                           const wire::ServerStatus& status) {
      if (const auto self = weak.lock()) self->heard_status(from, status);
    };
    server = std::make_shared<RemoteServer>(contexts, parts, address, std::move(heard), running);
    if (!stopped) server->start();
  }
  return server;
}

bool RemoteServers::State::is_used(const std::string& address) const {
  if (asked_for.contains(address)) return true;
  return std::any_of(volumes.begin(), volumes.end(), [&](const auto& one) {
    const auto place = places.find(one.first);
    return one.second.address == address || one.second.volume->server()->address() == address ||
           (place && place->address == address);
  });
}

void RemoteServers::State::take(const wire::Place& place) {
  const std::vector<wire::Place> own =
      parts->announcement ? parts->announcement() : std::vector<wire::Place>{};
  const bool is_own = std::any_of(own.begin(), own.end(),
                                  [&](const auto& one) { return one.volume == place.volume; });
  const auto before = places.find(place.volume);
  // Where a volume is that no map of this process names is remembered, and nobody is called: it
  // may be any candidate that ever announced itself. volume() looks there when it is asked for.
  const bool wanted = volumes.contains(place.volume);
  const bool room =
      !wanted || servers.contains(place.address) || servers.size() < limits::kPlacesMax;
  if (is_own || !room || !places.take(place)) return;
  if (wanted) find_server(place.address)->retry();
  if (!before || before->address == place.address || is_used(before->address)) return;
  const auto gone = servers.find(before->address);
  if (gone == servers.end()) return;
  gone->second->stop();
  servers.erase(gone);
}

// The server has the volume.
void RemoteServers::State::find_volume(const std::shared_ptr<RemoteServer>& server, VolumeId id,
                                       bool open) {
  const auto known = volumes.find(id);
  if (known == volumes.end()) return;
  const auto current = known->second.volume->server();
  if (current == server) return;
  const auto status = current->known_status(id);
  const bool better = !status || (open && status->state != VolumeStatus::State::open);
  if (!better) return;
  log_event(
      LogLevel::info, "volume_found",
      {{"volume", hex_name(id.value)}, {"at", server->address()}, {"before", current->address()}});
  known->second.volume->move_to(server);
}

void RemoteServers::State::heard_status(const std::shared_ptr<RemoteServer>& server,
                                        const wire::ServerStatus& status) {
  const std::lock_guard lock(mutex);
  if (stopped) return;
  for (const wire::Place& place : status.places) take(place);
  for (const auto& [id, volume] : status.volumes) {
    find_volume(server, id, volume.state == VolumeStatus::State::open);
  }
}

RemoteServers::RemoteServers(std::vector<boost::asio::io_context*> contexts,
                             std::shared_ptr<const LinkParts> parts)
    : state_(std::make_shared<State>(std::move(contexts), std::move(parts))) {}

RemoteServers::~RemoteServers() { stop(); }

std::shared_ptr<RemoteServer> RemoteServers::server(const std::string& address) {
  const std::lock_guard lock(state_->mutex);
  state_->asked_for.insert(address);
  return state_->find_server(address);
}

std::shared_ptr<RemoteVolume> RemoteServers::volume(VolumeId id, const std::string& address) {
  const std::lock_guard lock(state_->mutex);
  auto server = state_->find_server(address);
  State::Known& known = state_->volumes[id];
  if (known.volume == nullptr) {
    const auto place = state_->places.find(id);
    if (place) server = state_->find_server(place->address);
    known.volume = std::make_shared<RemoteVolume>(id, std::move(server), state_->parts->clock);
  } else if (known.address != address && !known.volume->server()->known_status(id)) {
    known.volume->move_to(std::move(server));
  }
  known.address = address;
  return known.volume;
}

void RemoteServers::keep_only(const std::vector<VolumeId>& volumes) {
  const std::set<VolumeId> kept(volumes.begin(), volumes.end());
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->volumes, [&kept](const auto& one) { return !kept.contains(one.first); });
  std::erase_if(state_->left, [](const auto& server) { return server.expired(); });
  std::erase_if(state_->servers, [this](const auto& one) {
    if (state_->is_used(one.first)) return false;
    state_->left.push_back(one.second);
    return true;
  });
}

void RemoteServers::hear(const std::vector<wire::Place>& places) {
  const std::lock_guard lock(state_->mutex);
  if (state_->stopped) return;
  for (const wire::Place& place : places) state_->take(place);
}

std::vector<wire::Place> RemoteServers::places() const {
  const std::lock_guard lock(state_->mutex);
  return state_->places.all();
}

std::size_t RemoteServers::server_count() const {
  const std::lock_guard lock(state_->mutex);
  return state_->servers.size();
}

std::vector<std::shared_ptr<RemoteServer>> RemoteServers::servers() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::shared_ptr<RemoteServer>> all;
  for (const auto& [address, server] : state_->servers) all.push_back(server);
  return all;
}

std::shared_ptr<const ConnectionChanges> RemoteServers::connection_changes() const {
  return state_->parts->changes;
}

void RemoteServers::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  for (const auto& [address, server] : state_->servers) server->stop();
  for (const auto& gone : state_->left) {
    if (const auto server = gone.lock()) server->stop();
  }
}

void RemoteServers::wait_ended(Duration patience) const { state_->running->wait_none(patience); }

}  // namespace penstock
