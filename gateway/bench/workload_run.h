// Measures one workload against a target: one row, or two where what was written is read back.
// Thread-safety: one thread; it blocks.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gateway/bench/bench_report.h"
#include "gateway/bench/bench_target.h"
#include "gateway/bench/workloads.h"

namespace penstock {

class WorkloadRun {
 public:
  // Ownership: borrows all. Pre: the set of each workload has been prepared.
  WorkloadRun(const BenchArguments& arguments, const Content& content, BenchTarget& target,
              std::string stamp);
  // Errors of a workload are in its row.
  std::vector<BenchRow> measure(const Workload& workload);

 private:
  Result<> measure_numbered(const Workload& workload, BenchRow& row);
  Result<> measure_training(const Workload& workload, BenchRow& row);
  Result<> measure_idle(BenchRow& row);
  Result<> measure_parts(const Workload& workload, BenchRow& row);
  Result<> measure_checkpoint(const Workload& workload, BenchRow& write, BenchRow& read);
  Result<> measure_shards(const Workload& workload, BenchRow& write, BenchRow& read);
  Result<> upload(std::vector<Upload> uploads, BenchRow& row);
  Result<> read_back(const std::string& what, NumberedSource::Fill fill, std::uint64_t count,
                     BenchRow& row);
  NumberedSource::Fill fill_of(const Workload& workload) const;
  Result<double> rate_of(const Workload& workload) const;
  LoadOptions timed(std::uint32_t connections) const;
  std::uint32_t connections_of(const Workload& workload) const;
  Upload planned_upload(const Workload& workload, const std::string& key,
                        std::uint64_t total_bytes) const;

  const BenchArguments& arguments_;
  const Content& content_;
  BenchTarget& target_;
  const std::string stamp_;  // of this run, in the keys of what it writes
  double last_rate_ = 0;     // requests a second of the workload before
};

}  // namespace penstock
