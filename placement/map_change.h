// Changes of the map: how volumes join, and how one is replaced by a new one, step by step (R12).
// Pure: each step is a map made from the one before it, so the map itself says how far a change has
// come and whoever finds it goes on.
//
//   steady ─ begin_replacement() ─► joint ─ end_joint() ─► moving ─ end_replacement() ─► steady
//
//   joint    groups of the old volume have two lists: rounds need majorities of both. The new one
//            takes new data, the old one none. Over when every row was brought to the new list.
//   moving   the new lists alone decide. Over when no record names the old volume any more.
//
// Each step raises the epoch of every group: a round that began before it, with the placements it
// had in mind, is refused.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "placement/cluster_map.h"

namespace penstock {

struct MapChange {
  enum class Phase : std::uint8_t { joint, moving };
  Phase phase = Phase::joint;
  VolumeId leaving;
  VolumeId joining;
};
// The change under way, if any.
std::optional<MapChange> change_of(const ClusterMap& map);

// `joining` takes the place and the weight of `leaving`; its id and name are new to the map, its
// weight, host and zone are taken from `leaving` where they are left empty.
// Errors: not_found - the map has no such volume; busy - another change is under way; invalid.
Result<ClusterMap> begin_replacement(const ClusterMap& map, VolumeId leaving, MapVolume joining);
// Volumes that enter the map, to take new data. Groups keep their lists, and the layout is kept:
// what lies on the others stays there. A name that is empty becomes the next free "v<N>".
// Errors: busy - a volume is being replaced; invalid - the map would make no sense with them: the
// context says why, and what to do.
// `moved`: volumes of the map that are served at another address than it says. Their hosts stay
// what they are: a host is a name. Errors also: not_found - the map has no such volume.
using MovedVolumes = std::map<VolumeId, std::string>;
Result<ClusterMap> add_volumes(const ClusterMap& map, std::vector<MapVolume> joining,
                               const MovedVolumes& moved = {});
// The same volumes, all served at `address` of one host. Where they are already: the map as it is.
// Errors: invalid.
Result<ClusterMap> serve_at(const ClusterMap& map, const std::string& address,
                            const std::string& host, const std::string& zone);
// Pre: change_of() is `joint`, or `moving`, respectively. Errors: invalid.
Result<ClusterMap> end_joint(const ClusterMap& map);
Result<ClusterMap> end_replacement(const ClusterMap& map);

}  // namespace penstock
