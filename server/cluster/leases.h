// Leases of fragments that a record is about to name (R10): looked at after the promise of the
// round that will be accepted.
#pragma once
#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

class LeaseKeeper {
 public:
  virtual ~LeaseKeeper() = default;
  // Every fragment that the update names has a lease that is fresh enough; stale ones are renewed.
  // May be called several times. Errors: unavailable - too few fragments could be pinned.
  virtual Task<> ensure(Deadline deadline) = 0;
};

}  // namespace penstock
