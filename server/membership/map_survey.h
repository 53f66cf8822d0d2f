// Asks volumes which map they hold. A map that was parsed is kept until the next survey, so that
// asking again and again costs little. Thread-safety: one executor, one survey at a time.
#pragma once
#include <functional>
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

  // Of the volumes of a map: those that can be reached.
  using Reach = std::function<std::vector<std::shared_ptr<VolumeClient>>(const ClusterMap&)>;
  static constexpr int kRoundsMax = 4;
  // The same, and then, in rounds of `patience` each, those that maps newer than `than` name and
  // that were not asked yet: where volumes were replaced, and others are away, no majority of a
  // newer map need be among the volumes of an older one.
  Awaitable<std::vector<HeldMap>> ask_newer(std::vector<std::shared_ptr<VolumeClient>> clients,
                                            Reach reach, Epoch than, Clock& clock,
                                            Duration patience);

 private:
  using Parsed = std::map<std::string, std::shared_ptr<const ClusterMap>>;
  // `before`: what was parsed in the survey before.
  Awaitable<std::vector<HeldMap>> ask_round(std::vector<std::shared_ptr<VolumeClient>> clients,
                                            const Parsed& before, Clock& clock, Deadline deadline);
  Parsed parsed_;  // by text; null: no map
};

}  // namespace penstock
