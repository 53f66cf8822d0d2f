// Brings volumes to a map and the epochs of its groups (R12). Used at each start and at each step
// of a change; doing it again changes nothing.
//
// A volume that joins, i.e. whose own map does not name it yet, comes last: it first takes over the
// horizon and the bucket fences of a majority of the old list. Those are read from volumes that are
// at the new epochs already: no drop and no fence of an older one can follow.
// Thread-safety: any I/O thread; one call at a time per cluster.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "placement/cluster_map.h"

namespace penstock {

struct Installed {
  // A majority of each list of each group answers under the new epochs only.
  bool reached = false;
  std::vector<VolumeId> adopted;
  std::vector<std::pair<VolumeId, Error>> failed;

  // Has it been reached, and is no volume busy with taking a map, perhaps this one, from elsewhere?
  bool is_settled() const;
};

// `clients`: of the volumes of the map that can be reached. Errors: timeout; failures of single
// volumes stand in the answer.
Task<Installed> install_map(std::shared_ptr<const ClusterMap> map,
                            std::vector<std::shared_ptr<VolumeClient>> clients, Clock& clock,
                            Deadline deadline);

}  // namespace penstock
