// What a run of `penstock bench` has found: rows of figures, as a table, as JSON, and beside those
// of an earlier run.
// Pure functions.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/bench/load_engine.h"
#include "penstock/result.h"

namespace penstock {

struct BenchRow {
  std::string workload;
  std::uint32_t connections = 0;
  double offered_per_s = 0;  // open loop: requests a second that were meant; 0: closed
  LoadResult result;
  std::uint64_t late = 0;             // open loop: were meant to begin within the time, and did not
  std::optional<double> utilisation;  // of emulated accelerators, 0 … 1
  std::optional<double> enough;       // with which it passes
  std::optional<double> complete_ms;  // CompleteMultipartUpload
  std::optional<double> slowest_s;    // rank of a checkpoint
  std::string error;                  // why it was not measured
  // Nothing was measured: none ended, not even later, and none was answered in part.
  bool is_empty() const {
    return connections > 0 && result.tally.latency.count() == 0 && result.tally.bytes_in == 0;
  }
  bool failed() const { return !error.empty() || result.tally.failed > 0 || is_empty(); }
};

struct BenchReport {
  std::string name;
  std::string endpoint;
  std::string when;  // UTC
  double scale = 1;
  double seconds = 0;
  bool with_processes = false;  // figures of processes are there
  std::vector<BenchRow> rows;
};

// The names of members stay what they are: others read them.
nlohmann::json json_of(const BenchRow& row, bool with_processes);
nlohmann::json json_of(const BenchReport& report);

std::string table_head(bool with_processes);
std::string table_line(const BenchRow& row, bool with_processes);

// The ratios now / old of each workload that both have: processor time of the processes, rate,
// latencies, peak memory. Errors: invalid - `old_text` is no report of this program.
Result<std::string> compare(const BenchReport& report, std::string_view old_text);

}  // namespace penstock
