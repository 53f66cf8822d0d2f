// penstock-sim: runs seeds of the simulated cluster; prints what fails and how to run it again.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "penstock/log.h"
#include "tests/sim/history_file.h"
#include "tests/sim/world.h"

namespace {

struct Arguments {
  std::uint64_t from = 1;
  std::uint64_t seeds = 200;
  bool verbose = false;
  std::string check;
};

// Runs seeds `from`, `from` + `step` … below `end` in this process; the number of failing ones.
int run_range(const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::uint64_t failed = 0, operations = 0;
  penstock::sim::SimClusters clusters;
  for (std::uint64_t i = 0; i < arguments.seeds; ++i) {
    const auto seed = arguments.from + i;
    const auto verdict = penstock::sim::run_seed(seed, clusters);
    operations += verdict.operations;
    if (arguments.verbose) {
      std::printf("seed %llu: %zu operations, %llu events, %.1f s simulated, trace %016llx\n",
                  static_cast<unsigned long long>(seed), verdict.operations,
                  static_cast<unsigned long long>(verdict.events),
                  static_cast<double>(verdict.simulated) * 1e-6,
                  static_cast<unsigned long long>(verdict.trace));
    }
    if (verdict.violations.empty()) continue;
    ++failed;
    std::printf("seed %llu FAILED; again: penstock-sim --from %llu --seeds 1 --verbose\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed));
    for (const auto& violation : verdict.violations) std::printf("  %s\n", violation.c_str());
    std::fflush(stdout);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%llu seeds from %llu, %llu operations, %llu failed, %.1f seeds/s\n",
              static_cast<unsigned long long>(arguments.seeds),
              static_cast<unsigned long long>(arguments.from),
              static_cast<unsigned long long>(operations), static_cast<unsigned long long>(failed),
              static_cast<double>(arguments.seeds) / seconds);
  return failed == 0 ? 0 : 1;
}

// Judges a history that was recorded elsewhere, as tests/cluster does.
int check_file(const std::string& path) {
  const auto verdict = penstock::sim::check_history_file(path);
  if (!verdict) {
    std::printf("%s\n", verdict.error().context.c_str());
    return 2;
  }
  for (const auto& violation : verdict->violations) std::printf("%s\n", violation.c_str());
  std::printf("%zu operations on %zu keys, %zu of unknown outcome, %zu violations\n",
              verdict->operations, verdict->keys, verdict->unknown, verdict->violations.size());
  return verdict->violations.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs the shipped protocol code of gateways and volumes in one thread under a seed, with "
      "faults, and checks\n"
      "linearizability per key and every byte. Exits 1 on a violation.");
  Arguments arguments;
  app.add_option("--seeds", arguments.seeds, "How many seeds")
      ->envname("PENSTOCK_SIM_SEEDS")
      ->capture_default_str();
  app.add_option("--from", arguments.from, "The first one")->capture_default_str();
  app.add_flag("--verbose", arguments.verbose, "A line per seed, and the product's log");
  app.add_option("--check", arguments.check,
                 "Run no seeds: judge the recorded history in this file (JSON lines)");
  CLI11_PARSE(app, argc, argv);
  if (!arguments.check.empty()) return check_file(arguments.check);
  if (!arguments.verbose) penstock::set_log_sink([](penstock::LogLevel, std::string_view) {});
  return run_range(arguments);
}
