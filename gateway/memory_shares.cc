#include "gateway/memory_shares.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "penstock/log.h"

namespace penstock {
namespace {

using limits::kMiB;

constexpr std::size_t kProcessBytes = 32 * kMiB;
constexpr std::size_t kBodiesMin = 32 * kMiB;
constexpr std::size_t kVolumeMin = 3 * kMiB;
constexpr std::size_t kVolumeMax = 128 * kMiB;

std::size_t in_mib(std::size_t bytes) { return (bytes + kMiB - 1) / kMiB; }

// The limit that the directory of a control group names; all: none. One that begins with "max" is
// none either.
std::size_t limit_of(const std::string& directory) {
  std::size_t least = static_cast<std::size_t>(-1);
  for (const char* const name : {"/memory.max", "/memory.limit_in_bytes"}) {
    std::size_t bytes = 0;
    if (std::ifstream(directory + name) >> bytes && bytes > 0) least = std::min(least, bytes);
  }
  return least;
}

// Of the group at `path` below `mount`, and of those around it.
std::size_t least_limit(const std::string& mount, std::string path) {
  std::size_t least = limit_of(mount);
  while (path.size() > 1) {
    least = std::min(least, limit_of(mount + path));
    path.resize(path.rfind('/'));
  }
  return least;
}

}  // namespace

std::size_t group_memory(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  // In a container the path may be that of the machine outside, and then it is not there: what is
  // mounted is the container's own group.
  std::size_t least = std::min(limit_of(mounts), limit_of(mounts + "/memory"));
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:/path
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      least = std::min(least, least_limit(mounts, path));
    } else if (controllers.find(",memory,") != controllers.npos) {
      least = std::min(least, least_limit(mounts + "/memory", path));
    }
  }
  return least;
}

std::size_t default_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  std::size_t all = group_memory("");
  if (pages > 0 && page_bytes > 0) {
    all = std::min(all, static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes));
  }
  return std::clamp(all / 8, limits::kMemoryMin, limits::kMemoryDefault);
}

Result<MemoryShares> share_memory(std::size_t ceiling, std::size_t volumes,
                                  const ConnectionsWanted& connections) {
  MemoryShares shares;
  shares.process = kProcessBytes;
  shares.volumes = volumes;
  // With it connections get their fifth, or all that they want if that is less.
  const std::size_t others = kProcessBytes + kBodiesMin + volumes * kVolumeMin;
  const std::size_t enough =
      std::min(others * 5 / 4 + 1, others + connections.count * connections.bytes_each);
  // A ceiling that nobody has chosen is no reason not to start.
  shares.ceiling = ceiling == 0 ? std::max(default_memory(), enough) : ceiling;
  shares.connections = std::min(shares.ceiling / 5 / connections.bytes_each, connections.count);
  shares.connection_bytes = shares.connections * connections.bytes_each;
  if (shares.ceiling < others + shares.connection_bytes) {
    // What is there is rounded down, what is needed up.
    return fail(Errc::invalid, "memory is " + std::to_string(shares.ceiling / kMiB) +
                                   " MiB: " + std::to_string(volumes) + " volumes need at least " +
                                   std::to_string(in_mib(enough)) +
                                   " MiB (\"memory\" in --config)");
  }
  const std::size_t rest = shares.ceiling - shares.process - shares.connection_bytes;
  if (volumes > 0) {
    const std::size_t bodies =
        std::clamp(shares.ceiling / 3, kBodiesMin, rest - volumes * kVolumeMin);
    shares.per_volume = std::min((rest - bodies) / volumes, kVolumeMax);
  }
  shares.bodies = rest - volumes * shares.per_volume;
  if (shares.connections < connections.count) {
    log_event(LogLevel::warn, "connections_limited",
              {{"connections_max", std::to_string(shares.connections)},
               {"wanted", std::to_string(connections.count)},
               {"memory", std::to_string(shares.ceiling)}});
  }
  return shares;
}

std::string memory_line(const MemoryShares& shares) {
  std::string line = "memory: " + std::to_string(in_mib(shares.ceiling)) + " MiB at most";
  const char* before = ": ";
  for (const auto& [part, bytes] : shares.parts()) {
    if (bytes == 0) continue;
    line += before + std::string(part) + " " + std::to_string(in_mib(bytes));
    before = ", ";
  }
  return line + "\n";
}

}  // namespace penstock
