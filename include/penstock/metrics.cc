// Families, all prefixed penstock_:
//   requests_total{operation}, request_bytes_total{operation}, response_bytes_total{operation},
//   request_duration_seconds{operation} (histogram), errors_total{code}; further ones by
//   collectors.
#include "penstock/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "penstock/assert.h"

namespace penstock {
namespace {
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Upper bounds in microseconds: from a cached GET to a Complete of 10,000 parts.
constexpr std::array<std::int64_t, 16> kBoundsUs = {
    100,    250,     500,     1'000,   2'500,     5'000,     10'000,     25'000,
    50'000, 100'000, 250'000, 500'000, 1'000'000, 5'000'000, 10'000'000, 30'000'000};
constexpr double kMicrosecondsPerSecond = 1e6;

MetricFamily make_family(std::string name, std::string help, MetricType type) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

ClientMetric labelled(const Metrics::Labels& labels) {
  ClientMetric metric;
  for (const auto& [name, value] : labels) {
    ClientMetric::Label label;
    label.name = name;
    label.value = value;
    metric.label.push_back(std::move(label));
  }
  return metric;
}

ClientMetric counted(const Metrics::Labels& labels, double value) {
  ClientMetric metric = labelled(labels);
  metric.counter.value = value;
  return metric;
}

double load(const std::atomic<std::uint64_t>& number) {
  return static_cast<double>(number.load(std::memory_order_relaxed));
}
void add(std::atomic<std::uint64_t>& number, std::uint64_t amount) {
  number.fetch_add(amount, std::memory_order_relaxed);
}
}  // namespace

// One cache line apart, so that operations on different threads do not slow each other.
struct alignas(64) Metrics::PerOperation {
  std::atomic<std::uint64_t> bytes_in{0};
  std::atomic<std::uint64_t> bytes_out{0};
  std::atomic<std::uint64_t> microseconds{0};
  std::array<std::atomic<std::uint64_t>, kBoundsUs.size() + 1> buckets{};  // the last: above all

  ClientMetric histogram(const Labels& labels) const;
  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const auto& bucket : buckets) sum += bucket.load(std::memory_order_relaxed);
    return sum;
  }
};

struct Metrics::Collector {
  Kind kind;
  std::string name;
  std::string help;
  std::function<std::vector<Sample>()> collect;
};

ClientMetric Metrics::PerOperation::histogram(const Labels& labels) const {
  ClientMetric metric = labelled(labels);
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    cumulative += buckets[i].load(std::memory_order_relaxed);
    ClientMetric::Bucket bucket;
    bucket.cumulative_count = cumulative;
    bucket.upper_bound = i < kBoundsUs.size()
                             ? static_cast<double>(kBoundsUs[i]) / kMicrosecondsPerSecond
                             : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back(bucket);
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = load(microseconds) / kMicrosecondsPerSecond;
  return metric;
}

Metrics::Metrics(std::vector<std::string> operations, std::vector<std::string> error_codes)
    : operations_(std::move(operations)),
      error_codes_(std::move(error_codes)),
      per_operation_(std::make_unique<PerOperation[]>(operations_.size())),
      errors_(std::make_unique<std::atomic<std::uint64_t>[]>(error_codes_.size())) {}

Metrics::~Metrics() = default;

void Metrics::record(std::size_t operation, const Outcome& outcome) {
  PENSTOCK_ASSERT(operation < operations_.size());
  PerOperation& numbers = per_operation_[operation];
  const std::int64_t duration_us = std::max<std::int64_t>(outcome.duration.count(), 0);
  const auto* bound = std::lower_bound(kBoundsUs.begin(), kBoundsUs.end(), duration_us);
  add(numbers.buckets[static_cast<std::size_t>(bound - kBoundsUs.begin())], 1);
  add(numbers.microseconds, static_cast<std::uint64_t>(duration_us));
  if (outcome.bytes_in != 0) add(numbers.bytes_in, outcome.bytes_in);
  if (outcome.bytes_out != 0) add(numbers.bytes_out, outcome.bytes_out);
  if (outcome.error_code) {
    PENSTOCK_ASSERT(*outcome.error_code < error_codes_.size());
    add(errors_[*outcome.error_code], 1);
  }
}

void Metrics::add_collector(Kind kind, std::string name, std::string help,
                            std::function<std::vector<Sample>()> collect) {
  collectors_.push_back(Collector{kind, std::move(name), std::move(help), std::move(collect)});
}

std::string Metrics::text() const {
  auto requests =
      make_family("penstock_requests_total", "Requests by operation", MetricType::Counter);
  auto bytes_in =
      make_family("penstock_request_bytes_total", "Bytes of request bodies", MetricType::Counter);
  auto bytes_out =
      make_family("penstock_response_bytes_total", "Bytes of response bodies", MetricType::Counter);
  auto durations = make_family("penstock_request_duration_seconds",
                               "From the request's head to its end", MetricType::Histogram);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const PerOperation& numbers = per_operation_[i];
    const Labels labels = {{"operation", operations_[i]}};
    requests.metric.push_back(counted(labels, static_cast<double>(numbers.count())));
    bytes_in.metric.push_back(counted(labels, load(numbers.bytes_in)));
    bytes_out.metric.push_back(counted(labels, load(numbers.bytes_out)));
    durations.metric.push_back(numbers.histogram(labels));
  }
  auto errors =
      make_family("penstock_errors_total", "Error answers by S3 code", MetricType::Counter);
  for (std::size_t i = 0; i < error_codes_.size(); ++i) {
    errors.metric.push_back(counted({{"code", error_codes_[i]}}, load(errors_[i])));
  }
  std::vector<MetricFamily> families = {std::move(requests), std::move(bytes_in),
                                        std::move(bytes_out), std::move(durations),
                                        std::move(errors)};
  for (const Collector& collector : collectors_) {
    const bool gauge = collector.kind == Kind::gauge;
    auto family = make_family(collector.name, collector.help,
                              gauge ? MetricType::Gauge : MetricType::Counter);
    for (const Sample& sample : collector.collect()) {
      ClientMetric metric = labelled(sample.labels);
      (gauge ? metric.gauge.value : metric.counter.value) = sample.value;
      family.metric.push_back(std::move(metric));
    }
    families.push_back(std::move(family));
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

}  // namespace penstock
