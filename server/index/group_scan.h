// One range scan of one register group: asked of a majority of live replicas, one of which gives
// summaries (or payloads), the others only key, ballot and kind. All live ones are asked if one of
// the majority fails or is late, for a fenced scan, and where replicas were found to differ: three
// scans instead of five are two fifths of a page's cost.
#pragma once
#include <cstddef>

#include "penstock/runtime.h"
#include "server/index/list_merge.h"
#include "server/membership/membership.h"
#include "server/membership/replica_set.h"

namespace penstock {

struct GroupScan {
  GroupShare share;
  // Of the request: bucket, kind, round.bucket_number, round.pass_fence, partition_count, start,
  // end, prefix, delimiter, rows_max, payloads, fence. The rest is filled in here.
  ScanRequest request;
  // Which of the live replicas gives summaries: counted on when one lags behind the others.
  std::size_t summary_turn = 0;
  bool wide = false;  // ask all at once: replicas differ here, and each more decides more keys
};

// Errors: unavailable - below a majority, or none of them gave summaries; stale_epoch - learn the
// newer map first; stale_bucket.
Task<MergeInput> scan_group(Membership& membership, Clock& clock, GroupScan scan,
                            Deadline deadline);

}  // namespace penstock
