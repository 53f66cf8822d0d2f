#include "gateway/process/peers.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "gateway/process/stack_options.h"
#include "gateway/process/volume_line.h"
#include "server/membership/writable.h"
#include "server/transport/tcp_stream.h"

namespace penstock {

std::shared_ptr<const HelloTerms> terms_of(const ClusterKey& key, PeerRole role, std::string name) {
  auto terms = std::make_shared<HelloTerms>();
  terms->role = role;
  terms->cluster = key.cluster;
  terms->name = std::move(name);
  terms->key.emplace(std::as_bytes(std::span(key.key)));
  return terms;
}

MapStamp stamp_of(const ClusterMap& map) {
  MapStamp stamp;
  stamp.epoch = map.epoch;
  std::copy_n(map.digest.begin(), stamp.digest.size(), stamp.digest.begin());
  return stamp;
}

std::unique_ptr<RemoteServers> make_peers(ProcessBase& base,
                                          std::shared_ptr<const HelloTerms> terms,
                                          std::function<MapStamp()> stamp) {
  Clock& clock = base.clock;
  auto dial = [&clock](std::string address) { return dial_tcp(std::move(address), clock); };
  auto parts = std::make_shared<const LinkParts>(LinkParts{base.clock,
                                                           base.random,
                                                           base.buffers,
                                                           std::move(dial),
                                                           std::move(terms),
                                                           std::move(stamp),
                                                           {}});
  return std::make_unique<RemoteServers>(contexts_of(base.io), std::move(parts));
}

std::vector<std::shared_ptr<VolumeClient>> clients_of(const ClusterMap& map,
                                                      const Membership::Connector& connect) {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const MapVolume& volume : map.volumes) {
    if (auto client = connect(volume)) clients.push_back(std::move(client));
  }
  return clients;
}

ClusterState state_of(const Membership& membership) {
  const auto map = membership.map();
  ClusterState state;
  std::set<VolumeId> open;
  std::size_t roomy = 0;
  for (const MapVolume& entry : map->volumes) {
    const auto client = membership.volume(entry.id);
    const VolumeStatus status = client ? client->status() : VolumeStatus{};
    const bool suspect = membership.suspect(entry.id);
    const bool is_open = status.state == VolumeStatus::State::open && !suspect;
    if (is_open) open.insert(entry.id);
    if (is_open && !status.full) ++roomy;
    if (!is_open) ++state.lost;
    state.volumes += volume_line(entry.name + " " + entry.address, status, suspect);
  }
  state.writable = is_writable(*map, open, roomy);
  return state;
}

Result<std::shared_ptr<const ClusterMap>> read_map_file(const std::string& path,
                                                        ClusterId cluster) {
  std::ifstream file(path);
  if (!file) {
    return fail(Errc::not_found,
                "cannot read the map \"" + path + "\": `penstock ring make` makes one");
  }
  std::stringstream text;
  text << file.rdbuf();
  auto map = ClusterMap::parse(text.str());
  if (!map) return fail(Errc::invalid, path + ": " + map.error().context);
  if (map->cluster != cluster) {
    return fail(Errc::invalid, path + " is the map of another cluster than the key's");
  }
  return std::make_shared<const ClusterMap>(std::move(*map));
}

}  // namespace penstock
