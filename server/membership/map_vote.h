// Which map counts: what the head of the source and the maps at the volumes say together (R12).
// Pure. Thread-safety: any thread.
//
// A map is *held* when a majority of the volumes of each list of each of its groups has adopted it,
// or a newer one. Only such a map, or the head of the source, may be followed: a map that a
// minority of volumes has adopted, and that never became or no longer is the head, wins nowhere.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "placement/cluster_map.h"

namespace penstock {

// What one volume answered: the map that it adopted last.
struct HeldMap {
  VolumeId volume;
  std::shared_ptr<const ClusterMap> map;  // null: none yet, or no answer
  bool answered = false;
};

enum class MapTrouble : std::uint8_t {
  none,
  source_empty,    // the volumes hold a map, the source has none: it was wiped
  source_damaged,  // what the source holds is no map of this cluster
  source_behind,   // the volumes hold a newer map than the source: it came back older
  source_forked,   // the volumes hold a map of the source's epoch with another digest
  volumes_ahead,   // a few volumes hold a newer map than the one that counts
  volumes_forked,  // two maps of one epoch at the volumes, whichever of them counts
  no_majority,     // no map is held by majorities: too few volumes answered
  // The source's map is newer, but lacks volumes that the held one has and that nobody replaces.
  source_lacks_volumes,
};

std::string_view to_string(MapTrouble trouble);  // "source_behind" ...; for logs and status
// Is the source out of step with the volumes, so that nobody may change the map?
bool forbids_change(MapTrouble trouble);

struct MapVerdict {
  // The map to follow; null: there is none. Never older than a map that is held.
  std::shared_ptr<const ClusterMap> follow;
  bool majority = false;  // majorities hold a map: `follow`, or one that it is newer than
  bool agreed = false;    // majorities hold `follow` itself: no other map of its epoch counts
  MapTrouble trouble = MapTrouble::none;
  std::string meaning;        // for people: what is wrong and what to do; empty: nothing
  Epoch highest_seen;         // at any volume or at the source: the next map's epoch is above it
  std::vector<VolumeId> lag;  // volumes that answered and should be brought to `follow`
};

// `head`: of the source; null: it has none, or there is no source. `has_source`: it was asked and
// has answered. Whoever asks does so after the volumes have answered: every map is the head before
// the first volume takes it, so that a head that is asked later is not behind a change under way.
// `unreadable`: why what the source holds is no map; then `head` is null.
MapVerdict judge_maps(std::shared_ptr<const ClusterMap> head, bool has_source,
                      const std::vector<HeldMap>& held, std::string_view unreadable = {});

// A volume of `before` that `next` lacks, though it was not being replaced; null: there is none.
const MapVolume* find_lost(const ClusterMap& next, const ClusterMap& before);

// Does a volume hold what cannot be, if `map` counts: a newer map, another one of its epoch, or an
// older one with a volume that find_lost() misses in `map`? Such a head is not followed while no
// majority answers: it may be that of a source that came back older and was changed. A volume that
// slept through a whole replacement looks the same; then a majority is waited for.
bool is_contradicted(const ClusterMap& map, const std::vector<HeldMap>& held);

// `next`, whose epochs are one above those of the map it was made of, with epochs above all that
// were seen: a volume that holds a map which never counted takes it, too. Errors: invalid.
Result<ClusterMap> past_epoch(ClusterMap next, Epoch highest_seen);

}  // namespace penstock
