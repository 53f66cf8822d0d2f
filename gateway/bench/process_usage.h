// What processes have used, read from /proc: their time and memory, with their children's.
// Thread-safety: any thread.
#pragma once
#include <vector>

#include "penstock/result.h"

namespace penstock {

struct ProcessUsage {
  double cpu_s = 0;  // user and system, since they began
  double rss_mib = 0;
};
// Nothing for no processes. Errors: not_found - one of `pids` is not there.
Result<ProcessUsage> usage_of(const std::vector<int>& pids);

}  // namespace penstock
