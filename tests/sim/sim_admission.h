// R13 in a simulated process: the product's own admission of one volume that starts.
// Thread-safety: none; lives in simulated time.
#pragma once
#include <functional>
#include <memory>

#include "server/membership/start_admission.h"
#include "server/volume/volume.h"
#include "tests/sim/sim_time.h"

namespace penstock::sim {

class SimAdmission {
 public:
  // The way to a peer; null: there is none.
  using Connect = std::function<std::shared_ptr<VolumeClient>(const MapVolume&)>;
  // Begins at once. `volume` was opened with CountStart::later. Ownership: `clock` outlives the
  // world's coroutines.
  SimAdmission(SimTime& time, SimRandom& random, Clock& clock, std::shared_ptr<Volume> volume,
               Connect connect);
  // Ends with its process: it begins nothing more.
  ~SimAdmission();
  SimAdmission(const SimAdmission&) = delete;
  SimAdmission& operator=(const SimAdmission&) = delete;

 private:
  const std::shared_ptr<StartAdmission> admission_;
};

}  // namespace penstock::sim
