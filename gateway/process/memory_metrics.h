// The memory of the process: what each part may have (memory_shares.h), and what all have now.
#pragma once
#include "gateway/memory_shares.h"
#include "penstock/metrics.h"

namespace penstock {

void add_collectors_of_shares(Metrics& metrics, const MemoryShares& shares);

}  // namespace penstock
