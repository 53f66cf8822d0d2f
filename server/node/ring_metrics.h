// What /metrics shows of the ring: is it whole, and how far a change has come.
#pragma once
#include "penstock/metrics.h"
#include "server/node/ring_control.h"

namespace penstock {

// Ownership: borrows both.
void add_collectors_of_ring(Metrics& metrics, const RingControl& ring);

}  // namespace penstock
