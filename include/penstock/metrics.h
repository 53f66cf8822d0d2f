// What the process tells Prometheus. Requests only touch atomics that exist from the start;
// everything else, also the text, is made when somebody asks. Labels are bounded: operations and
// error codes come as fixed lists, never from a request.
//
// Thread-safety: recording from any thread. add_collector() before the first text().
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/latency.h"
#include "penstock/runtime.h"
#include "penstock/thread_parts.h"

namespace penstock {

class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  struct Sample {
    Labels labels;
    double value = 0;
  };
  enum class Kind : std::uint8_t { gauge, counter };

  // The label values of `operation` and `code`; an index into them names one when something is
  // recorded.
  Metrics(std::vector<std::string> operations, std::vector<std::string> error_codes);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  struct Outcome {
    Duration duration{};
    std::uint64_t bytes_in = 0;   // of request bodies
    std::uint64_t bytes_out = 0;  // of response bodies
    std::optional<std::size_t> error_code;
  };
  // Cost: a handful of relaxed atomic additions.
  void record(std::size_t operation, const Outcome& outcome);

  // `collect` is called by text(): gauges of what others count anyway, e.g. open connections,
  // memory in use, volumes by state.
  // `name` is the family's whole name: penstock_<room>_<noun>_<unit>[_total].
  void add_collector(Kind kind, std::string name, std::string help,
                     std::function<std::vector<Sample>()> collect);

  // The same of durations; in seconds, as `name` should end.
  struct HistogramSample {
    Labels labels;
    LatencyHistogram::Counts counts;
  };
  void add_histograms(std::string name, std::string help,
                      std::function<std::vector<HistogramSample>()> collect);

  // The text format of Prometheus, version 0.0.4.
  std::string text() const;

 private:
  struct PerOperation;
  struct Families;
  void add_requests(Families& families) const;
  struct Collector;
  struct HistogramCollector;

  std::vector<std::string> operations_;
  std::vector<std::string> error_codes_;
  ThreadParts<std::unique_ptr<PerOperation[]>> per_operation_;  // sums over all threads count
  std::unique_ptr<std::atomic<std::uint64_t>[]> errors_;
  std::vector<Collector> collectors_;
  std::vector<HistogramCollector> histograms_;
};

// Times one operation and records it when it goes out of scope, however that happens.
class OperationTimer {
 public:
  OperationTimer(Metrics& metrics, const Clock& clock, std::size_t operation)
      : metrics_(metrics), clock_(clock), operation_(operation), start_(clock.boot()) {}
  ~OperationTimer() {
    outcome_.duration = elapsed();
    metrics_.record(operation_, outcome_);
  }
  OperationTimer(const OperationTimer&) = delete;
  OperationTimer& operator=(const OperationTimer&) = delete;

  void set_operation(std::size_t operation) { operation_ = operation; }
  void add_bytes_in(std::uint64_t bytes) { outcome_.bytes_in += bytes; }
  void add_bytes_out(std::uint64_t bytes) { outcome_.bytes_out += bytes; }
  void set_error(std::size_t code) { outcome_.error_code = code; }
  BootTime start() const { return start_; }
  Duration elapsed() const { return clock_.boot() - start_; }

 private:
  Metrics& metrics_;
  const Clock& clock_;
  std::size_t operation_;
  BootTime start_;
  Metrics::Outcome outcome_;
};

}  // namespace penstock
