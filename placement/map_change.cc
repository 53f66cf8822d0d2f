#include "placement/map_change.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

constexpr std::uint64_t kNamesMax = 1'000'000'000;  // a name with a larger number is no number

// The next version of `map`: its text is made and read again, which checks it and names it.
Result<ClusterMap> next_version(ClusterMap map) {
  ++map.epoch.value;
  for (MapGroup& group : map.groups) ++group.epoch.value;
  return ClusterMap::parse(map.to_json());
}

bool is_joint(const MapGroup& group) { return !group.joint.empty(); }

// "v<N>" above all that are there: the name of a volume that is gone may stand in a log.
std::string free_name(const ClusterMap& map) {
  std::uint64_t next = 0;
  for (const MapVolume& volume : map.volumes) {
    const std::string_view name = volume.name;
    std::uint64_t number = 0;
    if (!name.starts_with('v')) continue;
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
    const bool whole = error == std::errc() && end == name.data() + name.size();
    if (whole && number < kNamesMax) next = std::max(next, number + 1);
  }
  return "v" + std::to_string(next);
}

std::size_t count_hosts(const ClusterMap& map) {
  std::set<std::string_view> hosts;
  for (const MapVolume& volume : map.volumes) hosts.insert(volume.host);
  return hosts.size();
}

// Does a host hold so many replicas of a register that its loss takes the majority along?
bool is_crowded(const ClusterMap& map, const MapGroup& group) {
  std::map<std::string_view, std::uint32_t> per_host;
  const auto crowds = [&](VolumeId id) {
    const MapVolume* volume = map.find(id);
    return volume && ++per_host[volume->host] > std::max((map.policy.replicas - 1) / 2, 1u);
  };
  return std::any_of(group.replicas.begin(), group.replicas.end(), crowds);
}

// From the third host on a host is a failure domain, whose loss must be survived. Registers stay
// where they are.
Result<> check_new_hosts(const ClusterMap& map) {
  const std::size_t hosts = count_hosts(map);
  const auto crowded = [&map](const MapGroup& group) { return is_crowded(map, group); };
  if (hosts < kHostsAsDomains || std::none_of(map.groups.begin(), map.groups.end(), crowded)) {
    return {};
  }
  return fail(
      Errc::invalid,
      "of " + std::to_string(hosts) +
          " hosts each would be a failure domain, but the records of this cluster stay where "
          "they are, too many of them on one host. Add volumes so that there are at most " +
          std::to_string(kHostsAsDomains - 1) + " hosts, or make a new cluster");
}

}  // namespace

std::optional<MapChange> change_of(const ClusterMap& map) {
  const auto leaves = [](const MapVolume& volume) { return volume.successor.value != 0; };
  const auto leaving = std::find_if(map.volumes.begin(), map.volumes.end(), leaves);
  if (leaving == map.volumes.end()) return std::nullopt;
  const bool joint = std::any_of(map.groups.begin(), map.groups.end(), is_joint);
  return MapChange{joint ? MapChange::Phase::joint : MapChange::Phase::moving, leaving->id,
                   leaving->successor};
}

Result<ClusterMap> begin_replacement(const ClusterMap& map, VolumeId leaving, MapVolume joining) {
  if (change_of(map)) return fail(Errc::busy, "another volume is being replaced");
  ClusterMap next = map;
  const auto old = std::find_if(next.volumes.begin(), next.volumes.end(),
                                [&](const MapVolume& volume) { return volume.id == leaving; });
  if (old == next.volumes.end()) return fail(Errc::not_found, "the map has no such volume");
  joining.weight = old->weight;
  if (joining.host.empty()) joining.host = old->host;
  if (joining.zone.empty()) joining.zone = old->zone;
  old->weight = 0;
  old->successor = joining.id;
  for (MapGroup& group : next.groups) {
    if (std::find(group.replicas.begin(), group.replicas.end(), leaving) == group.replicas.end()) {
      continue;
    }
    group.joint = group.replicas;
    std::replace(group.joint.begin(), group.joint.end(), leaving, joining.id);
  }
  next.volumes.push_back(std::move(joining));
  return next_version(std::move(next));
}

Result<ClusterMap> add_volumes(const ClusterMap& map, std::vector<MapVolume> joining,
                               const MovedVolumes& moved) {
  if (joining.empty() && moved.empty()) return fail(Errc::invalid, "no volumes to add");
  if (change_of(map)) {
    return fail(Errc::busy, "a volume is being replaced: add others when that has ended");
  }
  ClusterMap next = map;
  for (const auto& [id, address] : moved) {
    const auto entry = std::find_if(next.volumes.begin(), next.volumes.end(),
                                    [id = id](const auto& volume) { return volume.id == id; });
    if (entry == next.volumes.end()) return fail(Errc::not_found, "the map has no such volume");
    entry->address = address;
  }
  for (MapVolume& volume : joining) {
    if (const MapVolume* there = next.find(volume.id)) {
      return fail(Errc::invalid, "volume \"" + there->name + "\" is in the map already");
    }
    if (volume.name.empty()) volume.name = free_name(next);
    next.volumes.push_back(std::move(volume));
  }
  if (!joining.empty()) CHECK_OK(check_new_hosts(next));
  return next_version(std::move(next));
}

Result<ClusterMap> serve_at(const ClusterMap& map, const std::string& address,
                            const std::string& host, const std::string& zone) {
  ClusterMap next = map;
  for (MapVolume& volume : next.volumes) {
    volume.address = address;
    volume.host = host;
    volume.zone = zone;
  }
  if (next.volumes == map.volumes) return next;
  return next_version(std::move(next));
}

Result<ClusterMap> end_joint(const ClusterMap& map) {
  ClusterMap next = map;
  for (MapGroup& group : next.groups) {
    if (!is_joint(group)) continue;
    group.replicas = std::move(group.joint);
    group.joint.clear();
  }
  return next_version(std::move(next));
}

Result<ClusterMap> end_replacement(const ClusterMap& map) {
  ClusterMap next = map;
  std::erase_if(next.volumes, [](const MapVolume& volume) { return volume.successor.value != 0; });
  return next_version(std::move(next));
}

}  // namespace penstock
