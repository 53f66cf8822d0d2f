#include "gateway/http/http_metrics.h"

namespace penstock {

void add_collectors_of_http(Metrics& metrics, const HttpServer& server) {
  using Sample = Metrics::Sample;
  using Samples = std::vector<Sample>;
  metrics.add_collector(
      Metrics::Kind::gauge, "penstock_http_connections", "Open connections of the S3 port.",
      [&server] {
        return Samples{Sample{{}, static_cast<double>(server.connection_count())}};
      });
  metrics.add_collector(
      Metrics::Kind::counter, "penstock_http_refused_total",
      "Connections and requests that the S3 port ended before they were requests, by reason.",
      [&server] {
        Samples samples;
        for (std::size_t i = 0; i < kHttpRefusalNames.size(); ++i) {
          const auto count = server.refusals().count_of(static_cast<HttpRefusal>(i));
          samples.push_back(
              Sample{{{"reason", std::string(kHttpRefusalNames[i])}}, static_cast<double>(count)});
        }
        return samples;
      });
}

void add_collectors_of_memory(Metrics& metrics, const MemoryBudget& budget) {
  using Sample = Metrics::Sample;
  using Samples = std::vector<Sample>;
  const auto gauge = Metrics::Kind::gauge;
  metrics.add_collector(
      gauge, "penstock_memory_budget_bytes", "Memory that requests may use, and do.", [&budget] {
        return Samples{Sample{{{"kind", "used"}}, static_cast<double>(budget.used_bytes())},
                       Sample{{{"kind", "limit"}}, static_cast<double>(budget.limit_bytes())}};
      });
  metrics.add_collector(
      gauge, "penstock_memory_used_bytes", "Memory that requests use, by what for.", [&budget] {
        Samples samples;
        for (std::size_t i = 0; i < kMemoryUseNames.size(); ++i) {
          const auto used = budget.used_bytes(static_cast<MemoryUse>(i));
          samples.push_back(
              Sample{{{"use", std::string(kMemoryUseNames[i])}}, static_cast<double>(used)});
        }
        return samples;
      });
}

}  // namespace penstock
