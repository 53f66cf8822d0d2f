#include "gateway/bench/bench_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr double kGiB = 1 << 30;
constexpr double kBigRequest = 1 << 20;  // from here on time counts by byte, below by request

template <class... Words>
std::string format(const char* how, const Words&... words) {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), how, words...);
  return line.data();
}

double bytes_of(const LoadTally& tally) {
  return static_cast<double>(tally.bytes_in + tally.bytes_out);
}
double ratio(double above, double below) { return below > 0 ? above / below : 0; }

std::string time_text(std::uint64_t us) {
  if (us < 10'000) return format("%llu us", static_cast<unsigned long long>(us));
  if (us < 10'000'000) return format("%.0f ms", static_cast<double>(us) * 1e-3);
  return format("%.1f s", static_cast<double>(us) * 1e-6);
}

std::string one_line(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 200));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string notes_of(const BenchRow& row) {
  std::string text;
  if (row.utilisation) {
    text += format("  busy %.1f %%", *row.utilisation * 100);
    if (row.enough && !row.is_empty())
      text += *row.utilisation >= *row.enough ? " (passes)" : " (too little)";
  }
  if (row.offered_per_s > 0) text += format("  offered %.0f/s", row.offered_per_s);
  if (row.late > 0) text += format("  not begun %llu", static_cast<unsigned long long>(row.late));
  if (row.slowest_s) text += format("  slowest %.2f s", *row.slowest_s);
  if (row.complete_ms) text += format("  complete %.0f ms", *row.complete_ms);
  if (row.result.tally.good == 0 && row.connections > 0 && row.error.empty() &&
      row.result.tally.failed == 0) {
    text += row.is_empty() ? "  FAILED: none ended" : "  none ended in time";
    text += ": give it more --seconds";
  }
  if (row.result.tally.failed > 0) {
    text += format("  FAILED %llu: ", static_cast<unsigned long long>(row.result.tally.failed));
    text += one_line(row.result.tally.first_failure);
  }
  if (!row.error.empty()) text += "  FAILED: " + one_line(row.error);
  return text;
}

// Which figure of a row tells what it costs: by byte or by request.
const char* cost_of(const Json& row) {
  const double bytes = row.value("bytes_per_request", 0.0);
  return bytes >= kBigRequest ? "server_cpu_s_per_gib" : "server_cpu_us_per_request";
}

std::string ratio_text(const Json& now, const Json& old, const char* name) {
  const double below = old.value(name, 0.0);
  const double above = now.value(name, 0.0);
  if (below <= 0 || above <= 0) return format(" %9s", "-");
  return format(" %9.2f", above / below);
}

}  // namespace

Json json_of(const BenchRow& row, bool with_processes) {
  const LoadTally& tally = row.result.tally;
  const auto requests = static_cast<double>(tally.good);
  Json json{{"workload", row.workload},
            {"connections", row.connections},
            {"requests", tally.good},
            {"failed", tally.failed},
            {"wall_s", row.result.wall_s},
            {"rps", ratio(requests, row.result.wall_s)},
            {"gib_per_s", ratio(bytes_of(tally) / kGiB, row.result.wall_s)},
            {"bytes_per_request", ratio(bytes_of(tally), requests)},
            {"p50_us", tally.latency.percentile_us(0.5)},
            {"p95_us", tally.latency.percentile_us(0.95)},
            {"p99_us", tally.latency.percentile_us(0.99)},
            {"p999_us", tally.latency.percentile_us(0.999)},
            {"max_us", tally.latency.max_us()},
            {"ttfb_p50_us", tally.first_byte.percentile_us(0.5)},
            {"ttfb_p99_us", tally.first_byte.percentile_us(0.99)},
            {"client_cpu_s", row.result.client_cpu_s}};
  if (with_processes) {
    json["server_cpu_s"] = row.result.server_cpu_s;
    json["server_cpu_s_per_gib"] = ratio(row.result.server_cpu_s, bytes_of(tally) / kGiB);
    json["server_cpu_us_per_request"] = ratio(row.result.server_cpu_s * 1e6, requests);
    json["server_peak_rss_mib"] = row.result.server_peak_rss_mib;
  }
  if (row.offered_per_s > 0) {
    json["offered_per_s"] = row.offered_per_s;
    json["not_begun"] = row.late;
  }
  if (row.utilisation) json["utilisation_percent"] = *row.utilisation * 100;
  if (row.complete_ms) json["complete_ms"] = *row.complete_ms;
  if (row.slowest_s) json["slowest_s"] = *row.slowest_s;
  if (!tally.failures.empty()) json["failures"] = tally.failures;
  if (!tally.first_failure.empty()) json["first_failure"] = tally.first_failure;
  if (!row.error.empty()) json["error"] = row.error;
  return json;
}

Json json_of(const BenchReport& report) {
  Json rows = Json::array();
  for (const BenchRow& row : report.rows) rows.push_back(json_of(row, report.with_processes));
  return {{"penstock_bench", 1},    {"name", report.name},   {"endpoint", report.endpoint},
          {"when", report.when},    {"scale", report.scale}, {"seconds", report.seconds},
          {"rows", std::move(rows)}};
}

std::string table_head(bool with_processes) {
  std::string head = format("%-10s %5s %9s %10s %8s %9s %9s %9s", "workload", "conns", "requests",
                            "requests/s", "GiB/s", "p50", "p99", "first p50");
  if (with_processes) head += format(" %9s %10s %8s", "CPU s/GiB", "CPU us/req", "RSS MiB");
  return head + "\n";
}

std::string table_line(const BenchRow& row, bool with_processes) {
  const LoadTally& tally = row.result.tally;
  const auto requests = static_cast<double>(tally.good);
  const double gib = bytes_of(tally) / kGiB;
  std::string line =
      format("%-10s %5u %9llu %10.1f %8.3f %9s %9s %9s", row.workload.c_str(), row.connections,
             static_cast<unsigned long long>(tally.good), ratio(requests, row.result.wall_s),
             ratio(gib, row.result.wall_s), time_text(tally.latency.percentile_us(0.5)).c_str(),
             time_text(tally.latency.percentile_us(0.99)).c_str(),
             time_text(tally.first_byte.percentile_us(0.5)).c_str());
  if (with_processes) {
    line += format(" %9.3f %10.1f %8.0f", ratio(row.result.server_cpu_s, gib),
                   ratio(row.result.server_cpu_s * 1e6, requests), row.result.server_peak_rss_mib);
  }
  return line + notes_of(row) + "\n";
}

Result<std::string> compare(const BenchReport& report, std::string_view old_text) {
  const Json old = Json::parse(old_text, nullptr, false);
  if (!old.is_object() || old.value("penstock_bench", Json()) != Json(1) ||
      !old.value("rows", Json()).is_array()) {
    return fail(Errc::invalid, "not a report that `penstock bench --json` wrote");
  }
  std::map<std::string, Json> before;
  for (const Json& row : old["rows"]) {
    if (row.is_object() && row.value("workload", Json()).is_string()) {
      before[row["workload"].get<std::string>()] = row;
    }
  }
  std::string text = format("%-10s %9s %9s %9s %9s %9s   now / then\n", "workload", "CPU", "rate",
                            "p50", "p99", "RSS");
  const Json scale = old.value("scale", Json());
  if (scale.is_number() && scale.get<double>() != report.scale) {
    text += format("not the same data: --scale was %g then and is %g now\n", scale.get<double>(),
                   report.scale);
  }
  for (const BenchRow& row : report.rows) {
    const auto found = before.find(row.workload);
    if (found == before.end()) continue;
    const Json now = json_of(row, report.with_processes);
    text += format("%-10s", row.workload.c_str()) + ratio_text(now, found->second, cost_of(now));
    for (const char* name : {"rps", "p50_us", "p99_us", "server_peak_rss_mib"}) {
      text += ratio_text(now, found->second, name);
    }
    text += "\n";
  }
  return text;
}

}  // namespace penstock
