// Leases of fragments that a record is about to name (R10): looked at after the promise of the
// round that will be accepted.
#pragma once
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"
#include "server/records/object_record.h"

namespace penstock {

class LeaseKeeper {
 public:
  virtual ~LeaseKeeper() = default;
  // Every fragment that the update names has a lease that is fresh enough; stale ones are renewed.
  // May be called several times. Returns those that could not be pinned: the update leaves them
  // out, and later calls count them as missing. Errors: unavailable - too few fragments could be
  // pinned.
  virtual Task<std::vector<FragmentId>> ensure(Deadline deadline) = 0;
};

// The fragments of `lost` count as missing from now on.
void leave_out(BlobRef& blob, const std::vector<FragmentId>& lost);

}  // namespace penstock
