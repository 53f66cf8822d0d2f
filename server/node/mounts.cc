#include "server/node/mounts.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>

namespace penstock {
namespace {
namespace fs = std::filesystem;

struct PlaceOnDevice {
  std::uint64_t device = 0;
  bool is_mount_root = false;  // false if the kernel does not tell
};

std::optional<PlaceOnDevice> look_at_directory(const std::string& path) {
  struct statx status {};
  if (::statx(AT_FDCWD, path.c_str(), AT_STATX_SYNC_AS_STAT, STATX_TYPE, &status) != 0) {
    return std::nullopt;
  }
  PlaceOnDevice place;
  place.device = makedev(status.stx_dev_major, status.stx_dev_minor);
  const bool told = (status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
  place.is_mount_root = told && (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  return place;
}

}  // namespace

std::optional<MountPlace> probe_mount(const std::string& path) {
  std::error_code error;
  fs::path here = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return std::nullopt;
  bool there = true;
  auto own = look_at_directory(here);
  while (!own && here.has_relative_path()) {
    here = here.parent_path();
    there = false;
    own = look_at_directory(here);
  }
  if (!own) return std::nullopt;
  MountPlace place;
  place.device = place.device_below = own->device;
  // Upwards until the mount point that carries it: what lies above that is on the disk below.
  for (bool first = there; here.has_relative_path(); first = false) {
    const auto above = look_at_directory(here.parent_path());
    if (!above) return std::nullopt;
    const auto at = look_at_directory(here);
    if (!at) return std::nullopt;
    if (at->is_mount_root || above->device != own->device) {
      place.is_mount_point = first;
      place.device_below = above->device;
      break;
    }
    here = here.parent_path();
  }
  return place;
}

std::optional<std::string> looks_unmounted(const std::string& path,
                                           const std::vector<std::string>& peers,
                                           const MountProbe& probe) {
  const auto own = probe(path);
  if (!own || own->is_mount_point) return std::nullopt;
  for (const std::string& peer : peers) {
    if (peer == path) continue;
    const auto other = probe(peer);
    if (!other) continue;
    const bool beside_mounts =
        other->device_below != other->device && own->device == other->device_below;
    if (!other->is_mount_point && !beside_mounts) continue;
    return "\"" + path + "\" lies on the same disk as the directory above it, but \"" + peer +
           "\" is on a disk of its own: is a disk not mounted?";
  }
  return std::nullopt;
}

}  // namespace penstock
