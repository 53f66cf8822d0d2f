// Keeps a process at the map that counts (server/membership/map_vote.h), and the volumes of this
// process at it, too: so a change whose driver died behind the first volume ends by itself, and a
// volume that was away learns what it missed.
//
// A server that moved is found by what it announces; the map names its new address later, or never.
// It waits for the source to change, and asks all volumes now and then, and when there is a reason.
// While the source is away the last map goes on to hold; majorities of the volumes tell of a newer.
// Thread-safety: one executor, the source's, unless said otherwise.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/wakeup.h"
#include "server/map_source/map_driver.h"
#include "server/membership/map_survey.h"

namespace penstock {

// What a process may say of its map.
struct MapState {
  Epoch epoch;               // of the map that the process is at; 0: none
  std::string source;        // its name; empty: none
  std::string source_error;  // why it does not answer; empty: it does
  MapTrouble trouble = MapTrouble::none;
  std::string meaning;  // of the trouble
};
// Lines for /readyz: "map of epoch 3 from etcd://…", and what is wrong.
std::string map_lines(const MapState& state);

// Ownership: borrowed; they outlive the follower's end.
struct FollowerParts {
  Clock& clock;
  MapSource* source = nullptr;  // null: there is none
  // The map that the process is at; null: none yet. Any thread.
  std::function<std::shared_ptr<const ClusterMap>()> current;
  // Of a newer map than that, which counts, or of another one of its epoch, which majorities hold.
  std::function<Result<>(std::shared_ptr<const ClusterMap>, SameEpoch)> take;
  // All volumes of this map (null: none is known) that can be reached, those of this process, and
  // all of which these know. Asked for newer maps, too, which may not count.
  std::function<VolumeClients(const ClusterMap*)> clients;
  // The volumes of this process; none: it is no server.
  std::function<VolumeClients()> own;
  // Cheap, asked often: is there a reason to look at once?
  std::function<bool()> moved;
  // Cheap, asked often: are there volumes that are missing? Then `meet` is told once in a while
  // what servers announce: one may be at another address than the map says.
  std::function<bool()> misses;
  std::function<void(const std::vector<Announcement>&)> meet;
  // After each look: which volumes hold another map of the process's epoch, or of a later one. May
  // be empty.
  std::function<void(const std::vector<VolumeId>&)> apart{};
};

class MapFollower {
 public:
  explicit MapFollower(FollowerParts parts);
  ~MapFollower();  // stop()

  // Once. It ends soon after stop(), which any thread may call; the wait for the source later.
  void start(Executor executor);
  void stop();
  // Until they have ended.
  Awaitable<void> finish();
  MapState state() const;  // any thread

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace penstock
