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

ClientMetric histogram_of(const Metrics::Labels& labels, const LatencyHistogram::Counts& counts) {
  constexpr auto& kBoundsUs = LatencyHistogram::kBoundsUs;
  ClientMetric metric = labelled(labels);
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < counts.buckets.size(); ++i) {
    cumulative += counts.buckets[i];
    ClientMetric::Bucket bucket;
    bucket.cumulative_count = cumulative;
    bucket.upper_bound = i < kBoundsUs.size()
                             ? static_cast<double>(kBoundsUs[i]) / kMicrosecondsPerSecond
                             : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back(bucket);
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = static_cast<double>(counts.microseconds) / kMicrosecondsPerSecond;
  return metric;
}

double load(const std::atomic<std::uint64_t>& number) {
  return static_cast<double>(number.load(std::memory_order_relaxed));
}
void add(std::atomic<std::uint64_t>& number, std::uint64_t amount) {
  number.fetch_add(amount, std::memory_order_relaxed);
}
}  // namespace

// Whole cache lines, so that those of two threads meet in none.
struct alignas(64) Metrics::PerOperation {
  std::atomic<std::uint64_t> bytes_in{0};
  std::atomic<std::uint64_t> bytes_out{0};
  LatencyHistogram durations;
};

struct Metrics::Families {
  std::vector<MetricFamily> all;
};

struct Metrics::Collector {
  Kind kind;
  std::string name;
  std::string help;
  std::function<std::vector<Sample>()> collect;
};

struct Metrics::HistogramCollector {
  std::string name;
  std::string help;
  std::function<std::vector<HistogramSample>()> collect;
};

Metrics::Metrics(std::vector<std::string> operations, std::vector<std::string> error_codes)
    : operations_(std::move(operations)),
      error_codes_(std::move(error_codes)),
      errors_(std::make_unique<std::atomic<std::uint64_t>[]>(error_codes_.size())) {
  per_operation_.all(
      [this](auto& part) { part = std::make_unique<PerOperation[]>(operations_.size()); });
}

Metrics::~Metrics() = default;

void Metrics::record(std::size_t operation, const Outcome& outcome) {
  PENSTOCK_ASSERT(operation < operations_.size());
  PerOperation& numbers = per_operation_.mine()[operation];
  numbers.durations.record(outcome.duration);
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

void Metrics::add_histograms(std::string name, std::string help,
                             std::function<std::vector<HistogramSample>()> collect) {
  histograms_.push_back(HistogramCollector{std::move(name), std::move(help), std::move(collect)});
}

void Metrics::add_requests(Families& families) const {
  auto requests =
      make_family("penstock_requests_total", "Requests by operation", MetricType::Counter);
  auto bytes_in =
      make_family("penstock_request_bytes_total", "Bytes of request bodies", MetricType::Counter);
  auto bytes_out =
      make_family("penstock_response_bytes_total", "Bytes of response bodies", MetricType::Counter);
  auto durations = make_family("penstock_request_duration_seconds",
                               "From the request's head to its end", MetricType::Histogram);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const Labels labels = {{"operation", operations_[i]}};
    double in = 0, out = 0;
    LatencyHistogram::Counts counts;
    per_operation_.all([&](const auto& part) {
      const PerOperation& numbers = part[i];
      in += load(numbers.bytes_in);
      out += load(numbers.bytes_out);
      counts += numbers.durations.counts();
    });
    requests.metric.push_back(counted(labels, static_cast<double>(counts.count())));
    bytes_in.metric.push_back(counted(labels, in));
    bytes_out.metric.push_back(counted(labels, out));
    durations.metric.push_back(histogram_of(labels, counts));
  }
  auto errors =
      make_family("penstock_errors_total", "Error answers by S3 code", MetricType::Counter);
  for (std::size_t i = 0; i < error_codes_.size(); ++i) {
    errors.metric.push_back(counted({{"code", error_codes_[i]}}, load(errors_[i])));
  }
  families.all = {std::move(requests), std::move(bytes_in), std::move(bytes_out),
                  std::move(durations), std::move(errors)};
}

std::string Metrics::text() const {
  Families made;
  if (!operations_.empty()) add_requests(made);  // else nobody makes requests here
  std::vector<MetricFamily>& families = made.all;
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
  for (const HistogramCollector& collector : histograms_) {
    auto family = make_family(collector.name, collector.help, MetricType::Histogram);
    for (const HistogramSample& sample : collector.collect()) {
      family.metric.push_back(histogram_of(sample.labels, sample.counts));
    }
    families.push_back(std::move(family));
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

}  // namespace penstock
