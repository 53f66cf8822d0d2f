// Asks volumes which map they hold. A map that was parsed is kept until the next survey, so that
// asking again and again costs little. Thread-safety: one executor, one survey at a time.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "server/membership/map_vote.h"

namespace penstock {

class MapSurvey {
 public:
  // In the order of `clients`. A volume whose map cannot be read counts as one that is silent.
  Awaitable<std::vector<HeldMap>> ask(std::vector<std::shared_ptr<VolumeClient>> clients,
                                      Clock& clock, Deadline deadline);

 private:
  std::map<std::string, std::shared_ptr<const ClusterMap>> parsed_;  // by text; null: no map
};

}  // namespace penstock
