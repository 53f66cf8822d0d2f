// Whether a directory lies on a disk of its own. A disk that is not mounted leaves the empty
// directory of its mount point behind, on the disk above: to format that would end as a store on
// the wrong disk.
// Thread-safety: none needed; calls block.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

// What is known of one directory, links resolved. One that is not there yet is judged by the place
// where it would be made.
struct MountPlace {
  std::uint64_t device = 0;
  bool is_mount_point = false;  // a mount, or on another device than the directory above it
  // The device on which the mount point lies that carries this directory; the directory's own if
  // that is the root file system.
  std::uint64_t device_below = 0;
};
// Empty: it cannot be looked at.
using MountProbe = std::function<std::optional<MountPlace>(const std::string& path)>;
std::optional<MountPlace> probe_mount(const std::string& path);

// Why `path` looks like the mount point of a disk that is not mounted: its peers are mount points
// or lie below some, and it lies on the disk that holds mount points. Empty: it does not.
std::optional<std::string> looks_unmounted(const std::string& path,
                                           const std::vector<std::string>& peers,
                                           const MountProbe& probe = probe_mount);

}  // namespace penstock
