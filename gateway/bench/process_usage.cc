#include "gateway/bench/process_usage.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace penstock {
namespace {

struct Process {
  int parent = 0;
  ProcessUsage usage;
};

// Source: proc(5), /proc/PID/stat. What follows the name: state, parent, …
std::map<int, Process> all_processes() {
  const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  std::map<int, Process> found;
  std::error_code wrong;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", wrong)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const std::size_t end = line.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream words(line.substr(end + 1));
    std::string skipped;
    Process process;
    double user = 0, system = 0, pages = 0;
    words >> skipped >> process.parent;
    for (int i = 0; i < 9; ++i) words >> skipped;
    words >> user >> system;
    for (int i = 0; i < 8; ++i) words >> skipped;
    words >> pages;
    process.usage = {(user + system) / tick, pages * page / (1 << 20)};
    found[pid] = process;
  }
  return found;
}

}  // namespace

Result<ProcessUsage> usage_of(const std::vector<int>& pids) {
  ProcessUsage sum;
  if (pids.empty()) return sum;
  const auto processes = all_processes();
  for (const int pid : pids) {
    if (!processes.contains(pid)) {
      return fail(Errc::not_found, "--pids: there is no process " + std::to_string(pid));
    }
  }
  for (const auto& [pid, process] : processes) {
    int ancestor = pid;
    for (int hops = 0; ancestor > 1 && hops < 20; ++hops) {
      if (std::find(pids.begin(), pids.end(), ancestor) != pids.end()) {
        sum.cpu_s += process.usage.cpu_s;
        sum.rss_mib += process.usage.rss_mib;
        break;
      }
      const auto above = processes.find(ancestor);
      ancestor = above == processes.end() ? 0 : above->second.parent;
    }
  }
  return sum;
}

}  // namespace penstock
