// penstock-crash: power cuts, failing disk calls and damaged files under a recorded load.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "penstock/log.h"
#include "tests/crash/campaign.h"

namespace {

// Memory if there is such a file system: the directories are rewritten for each cut.
std::string default_directory() {
  const std::string memory = "/dev/shm";
  const bool usable = ::access(memory.c_str(), W_OK) == 0;
  return (usable ? memory : std::filesystem::temp_directory_path().string());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs six volumes and a gateway under a seeded load on disks that record every call, and\n"
      "--cuts:  cuts the power at drawn points, of one volume, some or all; rebuilds the volumes "
      "as real\n"
      "         directories with unsynced data and names lost, kept or torn; opens the store on "
      "them;\n"
      "--calls: makes the n-th call of a disk fail, for each n; goes on; restarts;\n"
      "--damages: kills or closes the process, damages one file of one volume, restarts: the "
      "volume\n"
      "         stays out, or has lost nothing in silence;\n"
      "and checks that nothing acknowledged is lost, nothing else half visible. Exits 1 on a "
      "violation.");
  std::uint64_t cuts = 0;
  std::uint64_t calls = 0;
  std::uint64_t damages = 0;
  bool memory = false;
  bool verbose = false;
  penstock::crash::CampaignOptions options;
  options.directory = default_directory();
  app.add_option("--cuts", cuts, "How many power cuts");
  app.add_option("--calls", calls, "How many failing calls");
  app.add_option("--damages", damages, "How many damaged files");
  app.add_option("--from", options.from, "Seed of the first load")->capture_default_str();
  app.add_option("--at", options.at, "Only this cut or call of the first load");
  app.add_option("--operations", options.operations, "Of each of four clients, per load")
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "How many are checked at a time")->capture_default_str();
  app.add_option("--directory", options.directory, "Where volumes are rebuilt")
      ->capture_default_str();
  app.add_flag("--memory", memory, "Check on simulated disks instead of real files");
  app.add_flag("--verbose", verbose, "The product's log");
  CLI11_PARSE(app, argc, argv);
  if (!verbose) penstock::set_log_sink([](penstock::LogLevel, std::string_view) {});
  std::string made;
  if (memory) {
    options.directory.clear();
  } else {
    made = options.directory + "/penstock-crash-" + std::to_string(::getpid());
    std::filesystem::create_directories(made);
    options.directory = made;
  }
  bool good = true;
  if (cuts > 0) good = penstock::crash::Campaign(options).run_cuts(cuts) && good;
  if (calls > 0) good = penstock::crash::Campaign(options).run_calls(calls) && good;
  if (damages > 0) good = penstock::crash::Campaign(options).run_damages(damages) && good;
  if (!made.empty()) std::filesystem::remove_all(made);
  return good ? 0 : 1;
}
