// Leases that were lost, all or some.
#pragma once
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"
#include "server/blobs/leases.h"

namespace penstock {

class FakeLeases final : public LeaseKeeper {
 public:
  Task<std::vector<FragmentId>> ensure(Deadline) override {
    ++asked;
    if (none_left) co_return fail(Errc::unavailable, "too few fragments could be pinned");
    co_return lost;
  }
  int asked = 0;
  bool none_left = false;  // too few for the ack rule
  std::vector<FragmentId> lost;
};

}  // namespace penstock
