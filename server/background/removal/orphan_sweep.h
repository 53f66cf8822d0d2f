// Removes the fragments of the local volumes that no record names (R11). A fragment goes only
//   (1) when it has had no lease for a while: 24 h of its holder's boot clock since the last,
//   (2) after a complete write-back on its object, begun after that, which finds no reference in
//       the object's record, its parts and manifests; a plain read may clear it, never condemn it,
//   (3) if an earlier look, at least the readers' grace (RemovalOptions::hint_delay) before,
//       has found the same, and it has had no lease and no reader's pin since,
//   (4) if it still has none at the removal, under the holder's lock.
// A fragment of an upload: first the upload must have ended, then the complete write-back.
//
// Why (3) spares readers: a reader of a fragment, in any process, has learned its place from a
// record. After the complete write-back of the earlier look no read finds that record any more, and
// no record can come to name the fragment without a lease on it, which a later look sees. So all
// readers began before the earlier look. By the later one they have ended, or have pinned the
// fragment: a GET does so each third of the grace, and each pin holds for two of them.
// What was found is kept in memory, by the boot clock: a new process waits a grace anew. So the
// pages with something to wait for are looked at again as soon as the grace is over, also in the
// midst of a pass: one over many fragments may take longer than a process lives. At the bound of
// the memory what else is found waits until others are gone.
// Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <deque>
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
    void take(const FragmentEntry& entry);  // it was added
  };
  using Entries = std::vector<FragmentEntry>;
  struct Note {
    BootTime since;          // it has been known to be an orphan
    std::uint64_t pass = 0;  // that has counted it last
  };
  // A page of the list, behind `after`, with something that waits until then.
  struct Page {
    std::optional<FragmentId> after;
    BootTime due;
  };
  // What is known of a volume's fragments.
  struct Known {
    std::unordered_map<FragmentId, Note> notes;
    std::deque<Page> pages;  // the first is due first
  };
  // The pass over one volume.
  struct Look {
    std::shared_ptr<VolumeClient> volume;
    Known& known;
    BootTime listed{};   // the page at hand was asked for
    bool again = false;  // the second look at a page, at what waits there
    bool notes = false;  // something has been noted on this page
  };

  Task<> sweep_volume(VolumeId volume, Progress& progress, Found& left);
  Task<> sweep_pages(Look& look, Progress& progress, Found& left);
  // What stands on a page and may be an orphan, by owner.
  std::map<FragmentOwner, Entries> suspects_of(Look& look, Entries page) const;
  Task<> examine_all(Look& look, Entries page, Found& left);
  Task<> look_again(Look& look, Found& left);
  // Of entries of one owner; adds to `left` what is left of them as orphans.
  Task<> examine(Look& look, FragmentOwner owner, Entries entries, Found& left);
  Task<Entries> find_orphans(VolumeId volume, FragmentOwner owner, Entries entries,
                             Deadline deadline);
  Task<Entries> without_references(VolumeId volume, Snapshot object, Entries entries,
                                   Deadline deadline);
  Task<> remove(Look& look, Entries condemned, Found& left, Deadline deadline);

  // When it was found first, if it has had no lease since.
  std::optional<BootTime> noted(const Look& look, const FragmentEntry& entry) const;
  bool has_waited(BootTime since) const;
  // It waits for a later look.
  void wait(Look& look, const FragmentEntry& entry, BootTime since, Found& left);
  std::size_t notes_count() const;

  BackgroundContext& context_;
  Pace pace_;
  std::map<VolumeId, Known> known_;  // at most limits::kOrphansNotedMax notes in all
  std::uint64_t passes_ = 0;
};

}  // namespace penstock
