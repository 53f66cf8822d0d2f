#include "placement/map_change.h"

#include <algorithm>

namespace penstock {
namespace {

// The next version of `map`: its text is made and read again, which checks it and names it.
Result<ClusterMap> next_version(ClusterMap map) {
  ++map.epoch.value;
  for (MapGroup& group : map.groups) ++group.epoch.value;
  return ClusterMap::parse(map.to_json());
}

bool is_joint(const MapGroup& group) { return !group.joint.empty(); }

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
