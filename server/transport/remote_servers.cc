#include "server/transport/remote_servers.h"

#include <utility>

namespace penstock {

RemoteServers::RemoteServers(std::vector<boost::asio::io_context*> contexts,
                             std::shared_ptr<const LinkParts> parts)
    : contexts_(std::move(contexts)), parts_(std::move(parts)) {}

RemoteServers::~RemoteServers() { stop(); }

// Pre: mutex_ is held.
std::shared_ptr<RemoteServer> RemoteServers::find_server(const std::string& address) {
  auto& server = servers_[address];
  if (server == nullptr) {
    server = std::make_shared<RemoteServer>(contexts_, parts_, address);
    server->start();
  }
  return server;
}

std::shared_ptr<RemoteServer> RemoteServers::server(const std::string& address) {
  const std::lock_guard lock(mutex_);
  return find_server(address);
}

std::shared_ptr<RemoteVolume> RemoteServers::volume(VolumeId id, const std::string& address) {
  const std::lock_guard lock(mutex_);
  auto server = find_server(address);
  auto& volume = volumes_[id];
  if (volume == nullptr) {
    volume = std::make_shared<RemoteVolume>(id, std::move(server), parts_->clock);
  } else if (volume->server() != server) {
    volume->move_to(std::move(server));
  }
  return volume;
}

void RemoteServers::stop() {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, server] : servers_) server->stop();
}

}  // namespace penstock
