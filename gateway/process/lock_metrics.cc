#include "gateway/process/lock_metrics.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/counted_mutex.h"

namespace penstock {

void add_collector_of_locks(Metrics& metrics) {
  metrics.add_collector(
      Metrics::Kind::counter, "penstock_lock_waits_total",
      "How often a thread found a lock that warm requests take held by another thread.", [] {
        std::vector<Metrics::Sample> samples;
        for (std::size_t i = 0; i < kLockNames.size(); ++i) {
          const std::uint64_t waits = lock_waits(static_cast<LockName>(i)).load();
          samples.push_back({{{"lock", std::string(kLockNames[i])}}, static_cast<double>(waits)});
        }
        return samples;
      });
}

}  // namespace penstock
