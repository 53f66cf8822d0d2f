#include "server/node/store_format.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "penstock/log.h"
#include "server/node/first_format.h"
#include "server/node/mounts.h"
#include "server/node/volume_notes.h"

namespace penstock {
namespace {

constexpr std::uint32_t kGroups = 256;
constexpr const char* kNotNeeded = "there is a store already; --format changes nothing of it";

// May these directories, which hold nothing of a store, become one?
Result<> may_format(const StoreFormat& store, const std::vector<std::string>& paths) {
  if (store.directories.is_single()) return {};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (real_path(paths[i]) != real_path(paths[j])) continue;
      return fail(Errc::invalid, "\"" + paths[j] + "\" and \"" + paths[i] +
                                     "\" are one directory: each volume wants its own");
    }
  }
  for (const std::string& path : paths) {
    if (const auto why = looks_unmounted(path, paths)) {
      return fail(Errc::invalid, *why + " Mount it, or give other directories");
    }
  }
  if (store.asked) return {};
  return fail(Errc::invalid,
              "none of the " + std::to_string(paths.size()) +
                  " directories holds a store. If "
                  "there is one, its disks are not mounted: mount them. To make a new store, give "
                  "--format, this once");
}

Result<ClusterMap> make_first_map(const StoreFormat& store, std::size_t count) {
  std::vector<MapVolume> volumes;
  for (std::size_t i = 0; i < count; ++i) {
    MapVolume volume;
    volume.id = VolumeId{store.random.next()};
    volume.name = "v" + std::to_string(i);
    volume.host = "local";
    volumes.push_back(std::move(volume));
  }
  const auto cluster = store.random.id128<ClusterId>();
  return make_map(cluster, std::move(volumes), kGroups, store.policy);
}

using OpenDisk = std::function<Result<std::unique_ptr<Disk>>(const std::string& path)>;

// `all`: a disk that cannot be looked at is an error; else it is a missing volume.
Result<FirstFormat> open_disks(const StoreDirectories& directories,
                               const std::vector<std::string>& paths, bool all,
                               const OpenDisk& open) {
  FirstFormat first;
  for (const auto& path : paths) {
    auto disk = open(path);
    if (!disk && all) return disk.error();
    first.volumes.push_back(disk ? std::move(*disk) : nullptr);
  }
  if (!directories.is_single()) return first;
  TRY(above, open(directories.paths().front()));
  first.above = std::move(above);
  const auto listed = directories.listed_places();
  first.elsewhere = std::any_of(listed.begin(), listed.end(), [&](const std::string& path) {
    return std::find(paths.begin(), paths.end(), path) == paths.end();
  });
  return first;
}

// Null: there is no such directory.
Result<std::unique_ptr<Disk>> open_if_there(const std::string& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) return fail(Errc::io, "cannot look at \"" + path + "\": " + error.message());
  if (!there) return std::unique_ptr<Disk>();
  return make_posix_disk(path);
}

Result<bool> wants_format(const StoreFormat& store, const std::vector<std::string>& paths) {
  TRY(seen, open_disks(store.directories, paths, false, open_if_there));
  return wants_first_format(seen);
}

}  // namespace

Result<bool> format_if_new(const StoreFormat& store) {
  const auto paths = store.directories.first_places();
  TRY(wanted, wants_format(store, paths));
  if (!wanted) {
    if (store.asked) log_event(LogLevel::info, "format_not_needed", {{"meaning", kNotNeeded}});
    return false;
  }
  CHECK_OK(may_format(store, paths));
  TRY(map, make_first_map(store, paths.size()));
  TRY(made, open_disks(store.directories, paths, true, make_volume_directory));
  ThreadWorker worker("format", 1);
  CHECK_OK(format_store(made, map, store.clock, store.random, worker, kFormatsAtOnce));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    log_event(LogLevel::info, "volume_format",
              {{"volume", map.volumes[i].name}, {"path", paths[i]}});
  }
  return true;
}

}  // namespace penstock
