// Removes the fragments of the local volumes that no record names (R11). A fragment goes only
//   (1) when it has had no lease for a while: 24 h of its holder's boot clock since the last,
//   (2) after a complete round on its object, begun after that, which finds no reference in the
//       object's record, its parts and manifests; a plain read may clear it, never condemn it,
//   (3) if it still has no lease at the removal, under the holder's lock.
// A fragment of an upload: first the upload must have ended, then the complete round.
// Thread-safety: one executor.
#pragma once
#include "server/background/pace.h"

namespace penstock {

class OrphanSweep {
 public:
  explicit OrphanSweep(BackgroundContext& context) : context_(context), pace_(context) {}
  // One look at every fragment of the local volumes. Errors: unavailable - not all could be looked
  // at.
  Task<> pass();

 private:
  struct Found {  // fragments that no read found a reference to
    std::uint64_t fragments = 0;
    std::uint64_t bytes = 0;
    Duration oldest{};
  };
  using Entries = std::vector<FragmentEntry>;

  Task<> sweep_volume(VolumeId volume, Progress& progress, Found& left);
  // What is left of `entries`, all of one owner, as orphans.
  Task<Found> examine(std::shared_ptr<VolumeClient> volume, FragmentOwner owner, Entries entries);
  Task<Entries> without_references(VolumeId volume, Snapshot object, Entries entries,
                                   Deadline deadline);

  BackgroundContext& context_;
  Pace pace_;
};

}  // namespace penstock
