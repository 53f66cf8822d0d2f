// What a server's start does with its directories, each one volume: makes new volumes of empty ones
// if a person asks for it, opens them, and gives each a place. It needs no other server: volumes
// wait for their admission, which other servers have a part in (volume_admissions.h).
//
// A volume that cannot be opened keeps its place and its reason; the others are served. Should
// disks or files keep all of them closed, none is, and who asks the server is told.
// Thread-safety: none; blocks. Pre: the I/O threads run. Used once.
#pragma once
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/node/volume_set.h"

namespace penstock {

struct ServerStartOptions {
  std::vector<std::string> directories;
  ClusterId cluster;
  // Directories that hold nothing become volumes of the cluster, which no map names yet. Never what
  // holds anything, hangs, or looks like the mount point of a disk that is not mounted.
  bool format = false;
};

// Ownership: borrows all.
struct ServerStartParts {
  const ServerStartOptions& options;
  VolumeOpener& opener;
  VolumeSet& volumes;
  Clock& clock;
  Random& random;
};

class ServerStart {
 public:
  explicit ServerStart(ServerStartParts parts) : parts_(parts) {}

  // Fills the set and begins the watch over disk calls. Errors: invalid - a directory is of another
  // cluster or another format; not_found - none of them is a volume, or other processes hold all
  // that are; overloaded; io. The context says what to do.
  Result<> run();
  std::size_t formatted() const { return formatted_; }

 private:
  Result<> format_empty();
  Result<> format(const std::string& path);
  Result<std::shared_ptr<VolumeSlot>> open(const std::string& path);
  Result<> open_all(VolumeSlots& slots);

  const ServerStartParts parts_;
  std::map<std::string, std::string> unmounted_;  // directories that seem to be that, and why
  std::atomic<std::size_t> formatted_{0};
};

}  // namespace penstock
