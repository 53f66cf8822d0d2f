// How a process that was refused as stale learns the newer map: from the volumes (R12). Any map
// that a volume has adopted may be used, since acceptors let a round pass only at their own epoch.
// Thread-safety: any thread; one per process.
#pragma once
#include <atomic>

#include "server/membership/membership.h"

namespace penstock {

class MapLearner {
 public:
  MapLearner(Membership& membership, Clock& clock) : membership_(membership), clock_(clock) {}
  // Asks all volumes and adopts the newest map among their answers; waits a moment in any case, so
  // that whoever asks again does not do so in a circle. One caller asks for all.
  Awaitable<void> learn();

 private:
  Task<> ask_all();
  Membership& membership_;
  Clock& clock_;
  std::atomic<bool> asking_{false};
  SharedBytes looked_at_;  // the last map that was parsed; of whoever is asking
};

}  // namespace penstock
