// Ends rows that nobody will come for, so that the purge can take them: objects of buckets that are
// gone, and parts of uploads that are gone. Such a row was accepted by a minority when its bucket
// or upload ended, and no list showed it. A complete write-back decides first whether it was
// chosen, then it becomes a tombstone; fragments go by its hints or as orphans.
// Thread-safety: one executor.
#pragma once
#include <optional>
#include <set>
#include <utility>

#include "server/background/removal/pace.h"

namespace penstock {

class StrayRows {
 public:
  explicit StrayRows(BackgroundContext& context) : context_(context), pace_(context) {}
  // One look at the rows of objects and parts of the local volumes that are in the first place of
  // their group, or whose turn has come. Errors: unavailable - not all could be looked at.
  Task<> pass();

 private:
  Task<> look_at(VolumeId volume, RowKind kind, Progress& progress);
  Task<bool> is_stray(const RegisterEntry& row);
  // Asked after the row was seen: a bucket is made before its rows, and its id never used again.
  Task<bool> bucket_is_gone(BucketId bucket);
  Task<> end(RegisterRef ref);

  BackgroundContext& context_;
  Pace pace_;
  std::set<BucketId> there_;  // as of this pass
  std::set<BucketId> gone_;   // those of them that rows were found of
  // The upload that was asked for last: its parts lie side by side.
  std::optional<std::pair<FragmentOwner, bool>> upload_;
};

}  // namespace penstock
