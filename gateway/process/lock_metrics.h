// How often threads of the process waited for each other's locks (counted_mutex.h).
#pragma once
#include "penstock/metrics.h"

namespace penstock {

void add_collector_of_locks(Metrics& metrics);

}  // namespace penstock
