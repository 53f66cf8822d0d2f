#include "penstock/metrics.h"

#include <doctest/doctest.h>

#include <string>

using namespace penstock;
using std::chrono::milliseconds;

namespace {
bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}
struct FixedClock final : Clock {
  BootTime now{};
  WallTime wall() const override { return {}; }
  BootTime boot() const override { return now; }
  Awaitable<void> sleep_until(BootTime) override { co_return; }
};
}  // namespace

TEST_CASE("operations are counted with their bytes, times and errors") {
  Metrics metrics({"GetObject", "PutObject"}, {"NoSuchKey", "SlowDown"});
  Metrics::Outcome outcome;
  outcome.duration = milliseconds(3);
  outcome.bytes_out = 100;
  metrics.record(0, outcome);
  outcome.duration = std::chrono::minutes(2);
  outcome.error_code = 1;
  metrics.record(0, outcome);
  const std::string text = metrics.text();
  CHECK(has_line(text, "penstock_requests_total{operation=\"GetObject\"} 2"));
  CHECK(has_line(text, "penstock_requests_total{operation=\"PutObject\"} 0"));
  CHECK(has_line(text, "penstock_response_bytes_total{operation=\"GetObject\"} 200"));
  CHECK(has_line(text, "penstock_errors_total{code=\"SlowDown\"} 1"));
  CHECK(has_line(text, "penstock_errors_total{code=\"NoSuchKey\"} 0"));
  const std::string bucket = "penstock_request_duration_seconds_bucket{operation=\"GetObject\",le=";
  CHECK(has_line(text, bucket + "\"0.0025\"} 0"));
  CHECK(has_line(text, bucket + "\"0.005\"} 1"));
  CHECK(has_line(text, bucket + "\"30\"} 1"));
  CHECK(has_line(text, bucket + "\"+Inf\"} 2"));
  CHECK(has_line(text, "# TYPE penstock_request_duration_seconds histogram"));
}

TEST_CASE("collectors are asked when the text is made") {
  Metrics metrics({}, {});
  double open = 1;
  metrics.add_collector(Metrics::Kind::gauge, "penstock_volumes", "Volumes by state", [&open] {
    return std::vector<Metrics::Sample>{{{{"state", "open"}}, open}, {{{"state", "closed"}}, 0}};
  });
  open = 5;
  const std::string text = metrics.text();
  CHECK(has_line(text, "penstock_volumes{state=\"open\"} 5"));
  CHECK(has_line(text, "# TYPE penstock_volumes gauge"));
}

TEST_CASE("an operation is recorded when its timer goes out of scope") {
  Metrics metrics({"A", "B"}, {"E"});
  FixedClock clock;
  {
    OperationTimer timer(metrics, clock, 0);
    timer.set_operation(1);
    timer.add_bytes_in(7);
    timer.set_error(0);
    clock.now += milliseconds(20);
    CHECK(timer.elapsed() == milliseconds(20));
  }
  const std::string text = metrics.text();
  CHECK(has_line(text, "penstock_requests_total{operation=\"B\"} 1"));
  CHECK(has_line(text, "penstock_request_bytes_total{operation=\"B\"} 7"));
  CHECK(has_line(text, "penstock_errors_total{code=\"E\"} 1"));
  CHECK(has_line(text, "penstock_request_duration_seconds_sum{operation=\"B\"} 0.02"));
}
