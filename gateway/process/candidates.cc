#include "gateway/process/candidates.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "penstock/hex_id.h"

namespace penstock {
namespace {

// The map that counts, if there is one.
const ClusterMap* map_of(const ClusterLook& look) {
  return look.maps.head.map ? look.maps.head.map.get() : look.maps.verdict.follow.get();
}

Result<> check_fresh(const ClusterLook& look, VolumeId id, const std::string& address) {
  const auto same = [id](const HeldMap& held) { return held.volume == id; };
  const auto held = std::find_if(look.maps.held.begin(), look.maps.held.end(), same);
  if (held == look.maps.held.end() || !held->answered) {
    return fail(Errc::unavailable, "volume " + hex_id(id.value) + " of server " + address +
                                       " does not answer: see its log");
  }
  if (!held->map) return {};
  if (const std::string lost = left_out_text(look, *held); !lost.empty()) {
    return fail(Errc::invalid, "server " + address + ": " + lost);
  }
  return fail(Errc::invalid,
              "volume " + hex_id(id.value) + " of server " + address +
                  " is named by a map already; only fresh volumes are taken in. Was it lost to the "
                  "cluster: empty its directory, and start its server with --format");
}

const Announcement* announcement_of(const ClusterLook& look, const std::string& address) {
  const auto same = [&](const Announcement& one) { return one.address == address; };
  const auto at = std::find_if(look.announced.begin(), look.announced.end(), same);
  return at == look.announced.end() ? nullptr : &*at;
}

MapVolume entry_of(const ClusterLook& look, const FoundServer& server, VolumeId id) {
  MapVolume volume;
  volume.id = id;
  volume.address = server.address;
  if (server.told) {
    volume.host = server.told->host;
    volume.zone = server.told->zone;
  }
  if (const Announcement* announced = announcement_of(look, server.address)) {
    if (volume.host.empty()) volume.host = announced->host;
    if (volume.zone.empty()) volume.zone = announced->zone;
  }
  if (volume.host.empty()) volume.host = server.address;
  return volume;
}

std::vector<std::string> announced_addresses(const ClusterLook& look) {
  std::set<std::string> addresses;
  for (const Announcement& server : look.announced) addresses.insert(server.address);
  return {addresses.begin(), addresses.end()};
}

}  // namespace

std::string left_out_text(const ClusterLook& look, const HeldMap& held) {
  const auto map = look.maps.verdict.follow;
  if (map == nullptr || !held.map || map->find(held.volume)) return {};
  const MapVolume* own = held.map->find(held.volume);
  if (own == nullptr || own->successor.value != 0) return {};
  return "volume " + own->name + " (" + hex_id(held.volume.value) +
         ") is named by its own map of epoch " + std::to_string(held.map->epoch.value) +
         ", but not by the map of epoch " + std::to_string(map->epoch.value) +
         " that counts. If it was not replaced, the map source came back older and was changed: "
         "then "
         "objects may lie on this volume alone. Remove nothing. If `penstock ring status` says "
         "so, `penstock ring restore`; else write its entry of the older map into the newest one, "
         "under the next epochs";
}

Result<std::vector<MapVolume>> fresh_volumes(const ClusterLook& look,
                                             const std::vector<std::string>& named) {
  const ClusterMap* map = map_of(look);
  const auto servers = named.empty() ? announced_addresses(look) : named;
  if (servers.empty()) {
    return fail(Errc::invalid, "no server announces itself; say which: --server ADDRESS:PORT");
  }
  std::vector<MapVolume> volumes;
  std::set<VolumeId> seen;
  for (const std::string& address : servers) {
    const FoundServer* server = look.server(address);
    if (server == nullptr || !server->trouble.empty()) {
      // It announced itself and went away. The first map decides on the layout, and keeps it, so
      // nobody is left out of that unsaid.
      if (named.empty() && map != nullptr) continue;
      std::string why = server ? server->trouble : "server " + address + " is silent";
      if (named.empty()) {
        why += "; start it, wait until it is announced no more (" +
               std::to_string(kLeaseOfSource.count()) +
               " s), or say which servers make the map: --server ADDRESS:PORT";
      }
      return fail(Errc::unavailable, std::move(why));
    }
    if (server->volumes.empty()) {
      if (named.empty()) continue;
      return fail(Errc::invalid, "server " + address + " has no volume");
    }
    for (const VolumeId id : server->volumes) {
      if (!seen.insert(id).second) {
        if (named.empty()) continue;  // an address that it had before
        return fail(Errc::invalid, "two addresses lead to one server: " + address);
      }
      if (map && map->find(id)) continue;
      const Result<> fresh = check_fresh(look, id, address);
      if (!fresh && named.empty()) continue;
      CHECK_OK(fresh);
      volumes.push_back(entry_of(look, *server, id));
    }
  }
  return volumes;
}

namespace {

// Of a server that listens at all addresses of its machine: others do not reach it there.
bool is_everywhere(const std::string& address) {
  return address.starts_with("0.0.0.0:") || address.starts_with("[::]:");
}

}  // namespace

MovedVolumes moved_volumes(const ClusterLook& look, const ClusterMap& map) {
  std::map<VolumeId, std::set<std::string>> open_at;
  for (const FoundServer& server : look.servers) {
    if (!server.told || is_everywhere(server.address)) continue;
    for (const DescribedVolume& volume : server.told->volumes) {
      if (volume.status.state == VolumeStatus::State::open) {
        open_at[volume.id].insert(server.address);
      }
    }
  }
  for (const Announcement& server : look.announced) {
    if (is_everywhere(server.address)) continue;
    for (const AnnouncedVolume& volume : server.volumes) {
      if (open_at.contains(volume.id)) open_at[volume.id].insert(server.address);
    }
  }
  MovedVolumes moved;
  for (const auto& [id, addresses] : open_at) {
    const MapVolume* entry = map.find(id);
    const std::string& address = *addresses.begin();
    if (entry && addresses.size() == 1 && entry->address != address) moved.emplace(id, address);
  }
  return moved;
}

std::string moved_text(const MapVolume& entry, const std::string& address) {
  return "the map says " + entry.address + ", it is served at " + address +
         ": `penstock ring add --server " + address + "` writes that into the map";
}

std::string driver_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name.fill('\0');
  return std::string("penstock ring on ") + name.data() + " pid " + std::to_string(::getpid());
}

}  // namespace penstock
