#include "gateway/process/peers.h"

#include <algorithm>
#include <utility>

#include "gateway/process/stack_options.h"
#include "server/transport/tcp_stream.h"
#include "server/transport/tls_stream.h"

namespace penstock {

MapStamp stamp_of(const ClusterMap& map) {
  MapStamp stamp;
  stamp.epoch = map.epoch;
  std::copy_n(map.digest.begin(), stamp.digest.size(), stamp.digest.begin());
  return stamp;
}

std::unique_ptr<RemoteServers> make_peers(ProcessBase& base, const Trust& trust, PeerRole role,
                                          std::string name, std::function<MapStamp()> stamp,
                                          std::function<std::vector<wire::Place>()> announcement) {
  Clock& clock = base.clock;
  const std::shared_ptr<const TlsContext> tls = trust.tls;
  auto dial = [&clock, tls](std::string address) {
    return tls ? dial_tls(std::move(address), clock, tls) : dial_tcp(std::move(address), clock);
  };
  auto parts = std::make_shared<const LinkParts>(LinkParts{base.clock,
                                                           base.random,
                                                           base.buffers,
                                                           std::move(dial),
                                                           terms_of(trust, role, std::move(name)),
                                                           std::move(stamp),
                                                           {},
                                                           std::move(announcement)});
  return std::make_unique<RemoteServers>(contexts_of(base.io), std::move(parts));
}

std::function<std::uint64_t()> changes_of(const RemoteServers& peers) {
  return [changes = peers.connection_changes()] { return changes->count(); };
}

std::vector<std::shared_ptr<VolumeClient>> clients_of(const ClusterMap& map,
                                                      const Membership::Connector& connect) {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const MapVolume& volume : map.volumes) {
    if (auto client = connect(volume)) clients.push_back(std::move(client));
  }
  return clients;
}

void move_volumes(RemoteServers& peers, const ClusterMap* before, const ClusterMap& next) {
  for (const MapVolume& volume : next.volumes) {
    const MapVolume* const known = before == nullptr ? nullptr : before->find(volume.id);
    if (known == nullptr || known->address != volume.address) {
      peers.volume(volume.id, volume.address);
    }
  }
  std::vector<VolumeId> ids;
  for (const MapVolume& volume : next.volumes) ids.push_back(volume.id);
  peers.keep_only(ids);
}

void meet_servers(RemoteServers& peers, const Membership& membership,
                  const std::vector<Announcement>& announced) {
  for (const Announcement& server : announced) {
    for (const AnnouncedVolume& volume : server.volumes) {
      const auto client = membership.volume(volume.id);
      const bool missing = client && client->status().state == VolumeStatus::State::missing;
      if (missing) peers.volume(volume.id, server.address);
    }
  }
}

bool misses_volumes(const Membership& membership) {
  const auto clients = membership.volumes();
  return std::any_of(clients.begin(), clients.end(), [](const auto& client) {
    return client->status().state == VolumeStatus::State::missing;
  });
}

}  // namespace penstock
