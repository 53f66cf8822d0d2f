#include "gateway/bench/bench_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

BenchRow row_of(std::uint64_t requests, double cpu_s, std::uint64_t bytes) {
  BenchRow row;
  row.workload = "W1";
  row.connections = 16;
  row.result.tally.good = requests;
  row.result.tally.bytes_in = requests * bytes;
  row.result.wall_s = 2;
  row.result.server_cpu_s = cpu_s;
  row.result.server_peak_rss_mib = 100;
  for (std::uint64_t i = 0; i < requests; ++i) row.result.tally.latency.record(Duration(50));
  return row;
}

BenchReport report_of(BenchRow row) {
  BenchReport report;
  report.with_processes = true;
  report.rows.push_back(std::move(row));
  return report;
}

TEST_CASE("figures of a row: by second, by request, by GiB") {
  const auto json = json_of(row_of(1024, 0.5, 1 << 20), true);
  CHECK(json["rps"] == doctest::Approx(512));
  CHECK(json["gib_per_s"] == doctest::Approx(0.5));
  CHECK(json["server_cpu_s_per_gib"] == doctest::Approx(0.5));
  CHECK(json["server_cpu_us_per_request"] == doctest::Approx(488.28));
  CHECK(json["p99_us"] == 50);
  CHECK_FALSE(json_of(row_of(1, 1, 1), false).contains("server_cpu_s"));
}

TEST_CASE("a row without a request has no figure that is none") {
  const auto json = json_of(row_of(0, 0, 0), true);
  CHECK(json["rps"] == 0);
  CHECK(json["server_cpu_us_per_request"] == 0);
}

TEST_CASE("a row of which no request ended has failed, one whose requests ended late has not") {
  BenchRow none;
  none.workload = "W1";
  none.connections = 1;
  CHECK(none.failed());
  CHECK(table_line(none, false).find("FAILED: none ended") != std::string::npos);
  BenchRow late = none;
  late.result.tally.latency.record(Duration(7));
  CHECK_FALSE(late.failed());
  CHECK(table_line(late, false).find("none ended in time") != std::string::npos);
  BenchRow idle = none;
  idle.connections = 0;
  CHECK_FALSE(idle.failed());
}

TEST_CASE("another scale is told beside a comparison") {
  BenchReport report = report_of(row_of(1, 1, 1));
  const std::string old = json_of(report).dump();
  CHECK(compare(report, old).value().find("--scale") == std::string::npos);
  report.scale = 7;
  CHECK(compare(report, old).value().find("--scale was 1 then and is 7 now") != std::string::npos);
}

TEST_CASE("failures are counted, shown and told apart") {
  BenchRow row = row_of(10, 1, 100);
  CHECK_FALSE(row.failed());
  row.result.tally.failed = 3;
  row.result.tally.failures["status 503 SlowDown"] = 3;
  row.result.tally.first_failure = "status 503 SlowDown: <Error>";
  CHECK(row.failed());
  CHECK(table_line(row, true).find("FAILED 3: status 503 SlowDown") != std::string::npos);
  CHECK(json_of(row, true)["failures"]["status 503 SlowDown"] == 3);
}

TEST_CASE("a comparison shows what is now by what was then, small requests by request") {
  const std::string old = json_of(report_of(row_of(1000, 1, 4096))).dump();
  const std::string text = compare(report_of(row_of(500, 1, 4096)), old).value();
  CHECK(text.find("W1              2.00      0.50      1.00      1.00      1.00") !=
        std::string::npos);
}

TEST_CASE("what an earlier run did not measure is left out, and what is no report is told") {
  BenchRow other = row_of(1, 1, 1);
  other.workload = "W2";
  const std::string old = json_of(report_of(other)).dump();
  CHECK(compare(report_of(row_of(1, 1, 1)), old).value().find("W1") == std::string::npos);
  for (const char* text :
       {"", "[]", "{}", "{\"penstock_bench\": 2, \"rows\": []}", "{\"penstock_bench\": 1}"}) {
    CHECK(compare(report_of(other), text).has_error());
  }
}

}  // namespace
}  // namespace penstock
