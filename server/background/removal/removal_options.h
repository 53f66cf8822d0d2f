// When unreferenced data is removed, and how fast: the settings of the jobs that do it. The
// protocol was designed for the defaults; shorter times are for tests and small stores.
#pragma once
#include <chrono>
#include <cstdint>

#include "penstock/limits.h"
#include "penstock/types.h"

namespace penstock {

struct RemovalOptions {
  // ---- graces, which volumes and writers keep, too
  Duration hint_delay = limits::kHintDelay;  // readers may use so long what an update freed
  Duration lease = limits::kFragmentLease;   // of a fragment that no record names yet; writers
                                             // trust half
  // ---- how often each job begins; a pass that takes longer is followed by the next at once
  Duration hints_every = std::chrono::minutes(1);
  Duration sweep_every = std::chrono::hours(1);
  Duration uploads_every = std::chrono::hours(1);
  Duration tombstones_every = std::chrono::minutes(10);
  Duration buckets_every = std::chrono::minutes(1);
  std::uint32_t steps_per_second = 200;  // of each job: hints, owners of fragments, uploads,
                                         // tombstones, pages of rows
  // Rows, hints or fragments asked of a volume at once; at most limits::kFragmentListMax.
  std::uint32_t page_rows = 512;
  // ---- ages
  // The first live volume of a group does its work. Nobody knows for certain which volumes are
  // dead, so the next one begins so much later, and so on.
  Duration takeover = limits::kHintTakeover;
  Duration hint_give_up = limits::kHintGiveUp;
  Duration hint_retry_first = std::chrono::minutes(1);
  Duration hint_retry_last = std::chrono::hours(1);
  Duration upload_expiry = limits::kUploadExpiry;
  Duration roll_forward_after = limits::kRollForwardAfter;
  Duration upload_kept = limits::kUploadKept;        // an ended one, for repeated Completes
  Duration tombstone_wait = limits::kTombstoneWait;  // R9: between the mark and the drop
};

}  // namespace penstock
