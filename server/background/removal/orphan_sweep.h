// Removes the fragments of the local volumes that no record names (R11). A fragment goes only
//   (1) when it has had no lease for a while: 24 h of its holder's boot clock since the last,
//   (2) after a complete write-back on its object, begun after that, which finds no reference in
//       the object's record, its parts and manifests; a plain read may clear it, never condemn it,
//   (3) if an earlier pass, at least the readers' grace (RemovalOptions::hint_delay) before,
//       has found the same, and it has had no lease and no reader's pin since,
//   (4) if it still has none at the removal, under the holder's lock.
// A fragment of an upload: first the upload must have ended, then the complete write-back.
//
// Why (3) spares readers: a reader of a fragment, in any process, has learned its place from a
// record. After the complete write-back of the earlier pass no read finds that record any more, and
// no record can come to name the fragment without a lease on it, which a later pass sees. So all
// readers began before the earlier pass. By the later one they have ended, or have pinned the
// fragment: a GET does so each third of the grace, and each pin holds for two of them.
// What was found is kept in memory, by the boot clock: a new process waits a grace anew. At its
// bound what else is found waits until others are gone.
// Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "server/background/removal/pace.h"

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
    void add(const FragmentEntry& entry);
  };
  using Entries = std::vector<FragmentEntry>;
  // Since when a fragment has been known to be an orphan.
  using Notes = std::unordered_map<FragmentId, BootTime>;
  // The pass over one volume.
  struct Look {
    std::shared_ptr<VolumeClient> volume;
    Notes& notes;       // of earlier passes; what is an orphan no more is forgotten with the pass
    Notes again{};      // those that still wait
    BootTime listed{};  // the page at hand was asked for
  };

  Task<> sweep_volume(VolumeId volume, Progress& progress, Found& left);
  Task<> sweep_pages(Look& look, Progress& progress, Found& left);
  // What is left of `entries`, all of one owner, as orphans.
  Task<Found> examine(Look& look, FragmentOwner owner, Entries entries);
  Task<Entries> find_orphans(VolumeId volume, FragmentOwner owner, Entries entries,
                             Deadline deadline);
  Task<Entries> without_references(VolumeId volume, Snapshot object, Entries entries,
                                   Deadline deadline);
  Task<> remove(Look& look, Entries condemned, Found& left, Deadline deadline);

  // When it was found first, if it has had no lease since.
  std::optional<BootTime> noted(const Look& look, const FragmentEntry& entry) const;
  bool has_waited(BootTime since) const;
  // It waits for a later pass.
  void wait(Look& look, const FragmentEntry& entry, BootTime since, Found& left);
  std::size_t notes_count() const;

  BackgroundContext& context_;
  Pace pace_;
  std::map<VolumeId, Notes> notes_;  // at most limits::kOrphansNotedMax in all
};

}  // namespace penstock
