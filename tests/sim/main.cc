// penstock-sim: runs seeds of the simulated cluster; prints what fails and how to run it again.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "penstock/log.h"
#include "tests/sim/directed.h"
#include "tests/sim/history_file.h"
#include "tests/sim/map_world.h"
#include "tests/sim/planted_rules.h"
#include "tests/sim/replacement_world.h"
#include "tests/sim/world.h"

namespace {

using penstock::sim::Verdict;
using penstock::sim::WorldShape;

struct Arguments {
  std::uint64_t from = 1;
  std::uint64_t seeds = 200;
  std::uint64_t replacements = 20;
  std::uint64_t maps = 20;
  bool verbose = false;
  bool stop = false;
  bool twice = false;
  bool directed = false;
  std::string only;
  bool plants = false;
  std::string plant;
  std::string check;
  WorldShape world = WorldShape::any;
  bool pauses = false;
};

unsigned long long print(std::uint64_t number) { return number; }

const char* option_of(WorldShape world) {
  switch (world) {
    case WorldShape::local:
      return " --world local";
    case WorldShape::cluster:
      return " --world cluster";
    case WorldShape::any:
      break;
  }
  return "";
}

// What is wrong with one seed, and its line with --verbose.
Verdict judge_seed(const Arguments& arguments, penstock::sim::SimClusters& clusters,
                   std::uint64_t seed) {
  const penstock::sim::WorldOptions world{arguments.world, arguments.pauses};
  auto verdict = penstock::sim::run_seed(seed, clusters, world);
  if (arguments.twice && penstock::sim::run_seed(seed, clusters, world).trace != verdict.trace) {
    verdict.violations.push_back("a second run has another trace");
  }
  if (arguments.verbose) {
    std::printf("seed %llu: %s, %zu operations, %llu events, %.1f s simulated, trace %016llx\n",
                print(seed), verdict.world.c_str(), verdict.operations, print(verdict.events),
                static_cast<double>(verdict.simulated) * 1e-6, print(verdict.trace));
  }
  return verdict;
}

// What a long run has come to, now and then, beside its results.
class Progress {
 public:
  explicit Progress(std::uint64_t total) : total_(total) {}
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  void show(std::uint64_t done, std::uint64_t failed) {
    if (Clock::now() - shown_ < kEvery) return;
    shown_ = Clock::now();
    std::fprintf(stderr, "%llu of %llu seeds, %llu failed, %.1f seeds/s\n", print(done),
                 print(total_), print(failed), static_cast<double>(done) / seconds());
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kEvery{30};
  const std::uint64_t total_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
};

// Runs the seeds in this process; the exit code.
int run_range(const Arguments& arguments) {
  Progress progress(arguments.seeds);
  std::uint64_t failed = 0, operations = 0, unjudged = 0, run = 0;
  penstock::sim::SimClusters clusters;
  while (run < arguments.seeds && !(arguments.stop && failed > 0)) {
    const auto seed = arguments.from + run++;
    const auto verdict = judge_seed(arguments, clusters, seed);
    operations += verdict.operations;
    unjudged += verdict.unjudged;
    progress.show(run, failed);
    if (verdict.violations.empty()) continue;
    ++failed;
    std::printf("seed %llu FAILED; again: penstock-sim --from %llu --seeds 1%s%s --verbose\n",
                print(seed), print(seed), option_of(arguments.world),
                arguments.pauses ? " --pauses" : "");
    for (const auto& violation : verdict.violations) std::printf("  %s\n", violation.c_str());
    std::fflush(stdout);
  }
  std::printf(
      "%llu seeds from %llu, %llu operations, %llu keys not judged, %llu failed, "
      "%.1f seeds/s\n",
      print(run), print(arguments.from), print(operations), print(unjudged), print(failed),
      static_cast<double>(run) / progress.seconds());
  return failed == 0 ? 0 : 1;
}

// Runs the directed schedules; the exit code.
int run_directed(const Arguments& arguments) {
  penstock::sim::SimClusters clusters;
  std::size_t failed = 0, run = 0;
  for (const auto& schedule : penstock::sim::directed_schedules()) {
    if (arguments.stop && failed > 0) break;
    if (!arguments.only.empty() && schedule.name != arguments.only) continue;
    ++run;
    const auto violations = schedule.run(clusters);
    if (arguments.verbose) std::printf("%s\n", std::string(schedule.name).c_str());
    if (violations.empty()) continue;
    ++failed;
    std::printf("directed %s FAILED\n", std::string(schedule.name).c_str());
    for (const auto& violation : violations) std::printf("  %s\n", violation.c_str());
  }
  std::printf("%zu directed schedules, %zu failed\n", run, failed);
  return failed == 0 && run > 0 ? 0 : 1;
}

// A volume is replaced in each of these worlds; the number of failing ones.
int run_replacements(const Arguments& arguments) {
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < arguments.replacements; ++i) {
    const auto seed = arguments.from + i;
    const auto violations = penstock::sim::run_replacement_seed(seed);
    if (violations.empty()) continue;
    ++failed;
    std::printf(
        "replacement %llu FAILED; again: penstock-sim --seeds 0 --from %llu "
        "--replacements 1 --verbose\n",
        print(seed), print(seed));
    for (const auto& violation : violations) std::printf("  %s\n", violation.c_str());
    std::fflush(stdout);
    if (arguments.stop) break;
  }
  std::printf("%llu replacements from %llu, %llu failed\n", print(arguments.replacements),
              print(arguments.from), print(failed));
  return failed == 0 ? 0 : 1;
}

// The map changes in each of these worlds while its source fails; the number of failing ones.
int run_maps(const Arguments& arguments) {
  penstock::sim::SimClusters clusters;
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < arguments.maps; ++i) {
    const auto seed = arguments.from + i;
    const auto violations = penstock::sim::run_map_seed(seed, clusters);
    if (violations.empty()) continue;
    ++failed;
    std::printf(
        "map %llu FAILED; again: penstock-sim --seeds 0 --replacements 0 --from %llu --maps 1 "
        "--verbose\n",
        print(seed), print(seed));
    for (const auto& violation : violations) std::printf("  %s\n", violation.c_str());
    std::fflush(stdout);
    if (arguments.stop) break;
  }
  std::printf("%llu changing maps from %llu, %llu failed\n", print(arguments.maps),
              print(arguments.from), print(failed));
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

int list_plants() {
  for (const auto& rule : penstock::sim::planted_rules()) {
    std::printf("%s\t%s\n", std::string(rule.name).c_str(), std::string(rule.fault).c_str());
  }
  return 0;
}

void add_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--seeds", arguments.seeds, "How many seeds")
      ->envname("PENSTOCK_SIM_SEEDS")
      ->capture_default_str();
  app.add_option("--from", arguments.from, "The first one")->capture_default_str();
  app.add_option("--replacements", arguments.replacements,
                 "In how many worlds a volume is replaced")
      ->capture_default_str();
  app.add_option("--maps", arguments.maps,
                 "In how many worlds the map changes while its source fails")
      ->capture_default_str();
  const std::map<std::string, WorldShape> worlds{
      {"any", WorldShape::any}, {"local", WorldShape::local}, {"cluster", WorldShape::cluster}};
  app.add_option("--world", arguments.world,
                 "local: volumes behind simulated links; cluster: servers and gateways with "
                 "connections; any: as the seed says")
      ->transform(CLI::CheckedTransformer(worlds))
      ->default_str("any");
  app.add_flag("--pauses", arguments.pauses, "Gateways of clusters are paused now and then");
  app.add_flag("--verbose", arguments.verbose, "A line per seed, and the product's log");
  app.add_flag("--stop", arguments.stop, "Stop at the first seed that fails");
  app.add_flag("--twice", arguments.twice, "Run each seed twice and compare the traces");
  app.add_flag("--directed", arguments.directed, "Run no seeds: the directed schedules");
  app.add_option("--only", arguments.only, "With --directed: only the schedule of this name");
  app.add_flag("--plants", arguments.plants, "Print the rules that --plant can break");
  app.add_option("--plant", arguments.plant,
                 "Break this rule of the store; only in a build for planted faults");
  app.add_option("--check", arguments.check,
                 "Run no seeds: judge the recorded history in this file (JSON lines)");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs the shipped protocol code of gateways and volumes in one thread under a seed, with "
      "faults, and checks\n"
      "linearizability per key and every byte. Exits 1 on a violation.");
  Arguments arguments;
  add_options(app, arguments);
  CLI11_PARSE(app, argc, argv);
  if (!arguments.check.empty()) return check_file(arguments.check);
  if (arguments.plants) return list_plants();
  if (!arguments.plant.empty() && !penstock::sim::break_rule(arguments.plant)) {
    std::printf("this build cannot break a rule \"%s\"\n", arguments.plant.c_str());
    return 2;
  }
  if (!arguments.verbose) penstock::set_log_sink([](penstock::LogLevel, std::string_view) {});
  if (arguments.directed) return run_directed(arguments);
  const int replacements = run_replacements(arguments);
  if (replacements != 0 && arguments.stop) return replacements;
  const int maps = run_maps(arguments);
  if (maps != 0 && arguments.stop) return maps;
  return std::max({replacements, maps, run_range(arguments)});
}
