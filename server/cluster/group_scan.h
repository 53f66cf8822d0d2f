// One range scan of one register group: asked of every live replica, answered by at least a
// majority, one of which gives summaries (or payloads), the others only key, ballot and kind.
#pragma once
#include "penstock/runtime.h"
#include "server/cluster/list_merge.h"
#include "server/cluster/membership.h"
#include "server/cluster/replica_set.h"

namespace penstock {

struct GroupScan {
  GroupShare share;
  // Of the request: bucket, kind, round.bucket_number, round.pass_fence, partition_count, start,
  // end, prefix, delimiter, rows_max, payloads, fence. The rest is filled in here.
  ScanRequest request;
  // Which of the live replicas gives summaries: counted on when one lags behind the others.
  std::size_t summary_turn = 0;
};

// Errors: unavailable - below a majority, or none of them gave summaries; stale_bucket.
Task<MergeInput> scan_group(Membership& membership, Clock& clock, GroupScan scan,
                            Deadline deadline);

}  // namespace penstock
