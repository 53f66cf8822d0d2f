// How a process that was refused as stale learns the newer map: from the volumes (R12). Only a map
// that counts is learned, one that majorities hold: what a driver left behind at a few volumes, or
// what a source that forked has put there, wins nowhere. Where all volumes are of this process,
// they are the source, and the newest map of any is learned: this process, which alone changes it,
// goes on from there.
// Thread-safety: any thread; one per process.
#pragma once
#include <atomic>

#include "server/membership/map_survey.h"
#include "server/membership/membership.h"

namespace penstock {

class MapLearner {
 public:
  MapLearner(Membership& membership, Clock& clock) : membership_(membership), clock_(clock) {}
  // Asks all volumes, those that newer maps name as well, and adopts the newest map that counts;
  // waits a moment in any case, so that whoever asks again does not do so in a circle. One caller
  // asks for all.
  Awaitable<void> learn();

 private:
  Task<> ask_all();
  Membership& membership_;
  Clock& clock_;
  std::atomic<bool> asking_{false};
  MapSurvey survey_;  // of whoever is asking
};

}  // namespace penstock
