// Purges the tombstones of objects, buckets, uploads and parts (R9): without it their rows would
// stay for ever. The first live volume of the group looks for them, each later one after its turn.
//
//   mark   the proposer has every replica ack the tombstone at one ballot
//   wait   10 min of the monotonic clock of this process; what it marked is forgotten when it ends
//   drop   in the same group epoch, asked again in each pass until all replicas have answered
//
// A volume that is away keeps the tombstones of its groups waiting.
// That earlier volumes leave a tombstone alone is judged by rounds, not by wall clocks: two looks
// found it at one ballot, so far apart by this process's own clock that a purge would have ended.
// Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "server/background/removal/pace.h"

namespace penstock {

class TombstonePurge {
 public:
  explicit TombstonePurge(BackgroundContext& context) : context_(context), pace_(context) {}
  // Drops what is due, then marks what it finds. Errors: unavailable - not all could be looked at.
  Task<> pass();

 private:
  struct Marked {
    std::uint32_t partitions = 1;
    TombstoneMark mark;
    BootTime since;
  };
  using Keys = std::vector<RegisterKey>;

  Task<> drop_due(Progress& progress);
  Task<> drop(RegisterKey key);
  // Looks at the tombstones of one kind that a volume holds, and counts those that are its to mark.
  Task<> mark_volume(VolumeId volume, RowKind kind, Progress& progress, std::uint64_t& waiting);
  Task<> mark(RegisterRef ref);
  // Is it the turn of a volume of this rank, which is not the first?
  bool is_left_alone(VolumeId volume, std::size_t rank, const RegisterEntry& row);
  // After all tombstones of a volume were looked at in this pass.
  void forget_what_went(VolumeId volume);
  // A mark needs every replica. Of a group with a suspect one row is tried in each pass: perhaps
  // nobody else would find out that the volume answers again.
  bool is_worth_a_round(const RegisterEntry& row);

  // A tombstone as a volume was found to hold it, and since when. Volumes of one process may hold
  // it at several ballots.
  using Holding = std::pair<VolumeId, RegisterKey>;
  struct Noted {
    Ballot ballot;
    BootTime since;
    std::uint64_t pass = 0;  // that has found it last
  };

  BackgroundContext& context_;
  Pace pace_;
  std::set<GroupId> tried_;               // groups with a suspect, in this pass
  std::map<RegisterKey, Marked> marked_;  // at most limits::kTombstonesMarkedMax
  std::map<Holding, Noted> noted_;        // as many at most
  std::uint64_t passes_ = 0;
};

}  // namespace penstock
