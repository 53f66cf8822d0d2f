// Works off removal hints: removes what an update freed at its holders, then drops the hint on all
// replicas.
//
// A hint is acted on only if
//   (1) a majority of its group holds it at one and the same ballot: the update was really chosen,
//   (2) a read of the object shows no reference,
//   (3) its upload, if it names one, has ended,
//   (4) no reader has pinned the fragments.
// The hint of a manifest page frees the parts that stand in it, by the same rules, then the page:
// it is read here, since an object may have more parts than an accept can name.
// Otherwise the hint is tried again, ever more rarely, for 24 h, and then dropped: the sweep finds
// what it named. The first live volume of the group works its hints off; each later one waits
// longer.
// How old a hint is its volume says, by its own clock. Due times are of the wall clock of whoever
// wrote it: they put the hints in order, and a clock that is ahead delays its hints by so much.
// Safety needs no clock: the delay only spares readers a restart.
// Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "server/background/removal/pace.h"
#include "server/background/removal/references.h"

namespace penstock {

class HintWorker {
 public:
  explicit HintWorker(BackgroundContext& context) : context_(context), pace_(context) {}
  // One look at all hints of the local volumes that are due. Errors: none that stop the next pass.
  Task<> pass();

 private:
  enum class Fate : std::uint8_t {
    keep,      // not now: try again
    removed,   // what it names is gone
    given_up,  // too old: the sweep's
  };
  struct Retry {
    BootTime next;
    Duration wait;
  };
  using Hints = std::vector<StoredHint>;

  Task<> work_volume(VolumeId volume, Progress& progress, std::uint64_t& waiting);
  bool takes(VolumeId volume, const StoredHint& hint) const;
  Task<> work_off(VolumeId volume, StoredHint hint);
  Task<Fate> judge(StoredHint hint);
  Task<bool> is_chosen(const StoredHint& hint, Deadline deadline);
  // What the object names, if that is nothing of the blob and its upload has ended.
  Task<std::optional<References>> free_of(const StoredHint& hint, const BlobRef& blob,
                                          Deadline deadline);
  // True: of the parts in the page no holder has anything that `named` does not name.
  Task<bool> remove_parts(const BlobRef& page, const References& named, Deadline deadline);
  Task<bool> remove(BlobRef blob, Deadline deadline);
  Task<> drop(VolumeId volume, const StoredHint& hint);
  void put_off(const HintName& name);

  BackgroundContext& context_;
  Pace pace_;
  std::map<HintName, Retry> retries_;  // at most limits::kHintRetriesMax
};

}  // namespace penstock
