// penstock-microbench: what the smallest steps of a request cost, beside a yardstick.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/bench/microbench.h"
#include "tests/bench/shared_steps.h"

namespace {

int show_shared_steps(unsigned threads, double seconds) {
  std::fprintf(stdout, "%-18s %10s %10s %7s %s\n", "step", "alone", "together", "ratio",
               "lock waits a million calls");
  const auto steps = penstock::all_shared_steps();
  for (const auto& result : penstock::measure_shared_steps(steps, threads, seconds)) {
    std::fprintf(stdout, "%-18s %7.1f ns %7.1f ns %7.2f %.1f\n", result.name.c_str(),
                 result.alone_ns, result.together_ns, result.together_ns / result.alone_ns,
                 result.lock_waits);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times the smallest steps of a request: hashes, checksums, parity, ring, signature, head.\n"
      "A ratio is to the yardstick's time, of the same process: for each byte, or each call.");
  double seconds = 4;
  bool json = false;
  app.add_option("--seconds", seconds, "In all")
      ->check(CLI::Range(0.1, 3'600.0))
      ->capture_default_str();
  app.add_flag("--json", json, "One object: the ratios by name");
  unsigned threads = 1;
  app.add_option("--threads", threads,
                 "More than one: instead, what warm requests of all threads share, by one thread\n"
                 "and by so many at once, in processor time; and how often a lock was held")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (threads > 1) return show_shared_steps(threads, seconds);

  nlohmann::json ratios;
  if (!json) std::puts("step               time       rate     ratio to");
  for (const auto& result : penstock::measure_steps(penstock::all_steps(), seconds)) {
    if (result.ratio > 0) ratios[result.name] = result.ratio;
    if (json) continue;
    std::fprintf(stdout, "%-12s %8.0f ns", result.name.c_str(), result.ns_per_call);
    if (result.bytes > 0) {
      std::fprintf(stdout, " %7.2f GB/s", static_cast<double>(result.bytes) / result.ns_per_call);
    } else {
      std::fprintf(stdout, " %8.2f M/s", 1e3 / result.ns_per_call);
    }
    if (result.ratio > 0) {
      std::fprintf(stdout, " %7.3f %s", result.ratio, result.yardstick.c_str());
    }
    std::fputs("\n", stdout);
  }
  if (json) std::puts(ratios.dump(1).c_str());
}
