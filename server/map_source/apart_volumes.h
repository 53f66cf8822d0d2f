// Which volumes hold another map than this process follows, of the same epoch or a later one; in
// the log, if they do for long. While a map is changed some do for a moment. Such a volume answers,
// but no rounds under the map that counts.
// Thread-safety: none; one executor.
#pragma once
#include <chrono>
#include <map>
#include <vector>

#include "penstock/repeat_budget.h"
#include "penstock/types.h"
#include "placement/cluster_map.h"
#include "server/membership/map_vote.h"

namespace penstock {

class ApartVolumes {
 public:
  // One that is found so for as long is told.
  static constexpr std::chrono::seconds kLong{2};

  // What a look has found, beside the map that the process is at: those that are apart now. In the
  // log one that gave no answer stays what it was found to be.
  std::vector<VolumeId> look(BootTime now, const ClusterMap& own, const std::vector<HeldMap>& held);

 private:
  struct Found {
    BootTime since;
    bool told = false;
  };
  void find(BootTime now, const ClusterMap& own, const HeldMap& held);
  void lose(VolumeId id);
  std::map<VolumeId, Found> found_;
  // Each change is news; what changes again and again is told once a second.
  static constexpr std::size_t kVolumesTold = 256;
  RepeatBudget lines_{kVolumesTold};
};

}  // namespace penstock
