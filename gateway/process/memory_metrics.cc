#include "gateway/process/memory_metrics.h"

#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace penstock {
namespace {

double resident_bytes() {
  std::size_t all_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> resident_pages;
  return static_cast<double>(resident_pages) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void add_collectors_of_shares(Metrics& metrics, const MemoryShares& shares) {
  using Sample = Metrics::Sample;
  using Samples = std::vector<Sample>;
  const auto gauge = Metrics::Kind::gauge;
  Samples parts;
  for (const auto& [part, bytes] : shares.parts()) {
    parts.push_back(Sample{{{"part", std::string(part)}}, static_cast<double>(bytes)});
  }
  metrics.add_collector(gauge, "penstock_memory_ceiling_bytes",
                        "Memory that the process may have, by part.", [parts] { return parts; });
  metrics.add_collector(gauge, "penstock_memory_resident_bytes", "Memory that the process has.",
                        [] {
                          return Samples{Sample{{}, resident_bytes()}};
                        });
}

}  // namespace penstock
