// The memory of the process: what each part may have (memory_shares.h), and what all have now. And
// how often a thread of it waited for another one's lock.
#pragma once
#include "gateway/memory_shares.h"
#include "penstock/metrics.h"

namespace penstock {

void add_collectors_of_shares(Metrics& metrics, const MemoryShares& shares);
void add_collector_of_locks(Metrics& metrics);

}  // namespace penstock
