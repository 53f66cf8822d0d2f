// How the map of a cluster is changed, step by step:
//
//   look_at_maps() → next map, made of verdict.follow → change_map()
//
// A change is refused while the source is not in step with the volumes: `penstock ring restore`,
// which is restore_map(), writes back what they hold. Cut off anywhere, a change ends by itself:
// before the source has it, nothing has happened; from then on it is the head, which servers bring
// to their volumes.
// Thread-safety: one executor, the source's.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "server/map_source/map_source.h"
#include "server/membership/map_install.h"
#include "server/membership/map_vote.h"

namespace penstock {

using VolumeClients = std::vector<std::shared_ptr<VolumeClient>>;

struct MapLook {
  std::vector<HeldMap> held;  // of the volumes that were asked
  MapHead head;
  bool has_source = false;   // it has answered
  std::string source_error;  // why it has not; empty also without one
  MapVerdict verdict;
};
// Asks the volumes, then the source (null: none), and judges. Each of the two has the time until
// the deadline from when it is asked. No errors: what does not answer stands in the look.
Awaitable<MapLook> look_at_maps(MapSource* source, VolumeClients clients, Clock& clock,
                                Deadline deadline);

// Makes `next` the head and installs it at the volumes. `next` was made of look.verdict.follow by a
// change of placement/map_change.h, or is the first map; its epochs are raised above all that were
// seen. `clients`: of all volumes of `next` that can be reached.
// Errors: busy - another driver was faster: look again; unavailable - the look says that nothing
// may be changed now, and what to do; those of the source. An Installed that has not `reached` is
// no error: the map is the head, and the volumes get it by and by.
struct MapChanged {
  std::shared_ptr<const ClusterMap> map;
  MapRevision revision;
  Installed installed;
};
Task<MapChanged> change_map(MapSource& source, MapLook look, ClusterMap next, VolumeClients clients,
                            Clock& clock, Deadline deadline);

// Writes the map that the volumes hold back to a source that is older, empty, damaged or forked.
// Where a few volumes hold a map that must not count, or one forks, the same map gets an epoch
// above all of them and is installed. Changes nothing where all is in step.
// Errors: unavailable - no map is held by a majority of the volumes; busy; those of the source.
Task<MapChanged> restore_map(MapSource& source, MapLook look, VolumeClients clients, Clock& clock,
                             Deadline deadline);

}  // namespace penstock
