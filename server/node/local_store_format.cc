// How a store begins: which directories may become one, and how they do.
#include <algorithm>
#include <filesystem>

#include "penstock/log.h"
#include "server/node/first_format.h"
#include "server/node/local_store.h"
#include "server/node/mounts.h"
#include "server/node/volume_notes.h"

namespace penstock {
namespace {

constexpr std::uint32_t kGroups = 256;
constexpr const char* kNotNeeded = "there is a store already; --format changes nothing of it";

}  // namespace

// May these directories, which hold nothing of a store, become one?
Result<> LocalStore::may_format(const std::vector<std::string>& paths) const {
  if (options_.directories.size() == 1) return {};
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
  if (options_.format) return {};
  return fail(Errc::invalid,
              "none of the " + std::to_string(paths.size()) + " directories holds a store. If "
              "there is one, its disks are not mounted: mount them. To make a new store, give "
              "--format, this once");
}

Result<> LocalStore::format_if_new() {
  const auto paths = volume_paths();
  // What hangs may hold a volume: nothing is formatted beside it.
  if (!hung_paths_.empty()) return Result<>{};
  FirstFormat store;
  bool wanted = false;
  const auto open_disks = [&](auto&& open) -> Result<> {
    store.volumes.clear();
    for (const auto& path : paths) {
      auto disk = open(path);
      // A disk that cannot be looked at is a missing volume, unless a format wants it.
      if (!disk && wanted) return disk.error();
      store.volumes.push_back(disk ? std::move(*disk) : nullptr);
    }
    if (options_.directories.size() > 1) return {};
    TRY(above, open(options_.directories.front()));
    store.above = std::move(above);
    const auto listed = listed_paths();
    store.elsewhere = std::any_of(listed.begin(), listed.end(), [&](const std::string& path) {
      return std::find(paths.begin(), paths.end(), path) == paths.end();
    });
    return {};
  };
  CHECK_OK(open_disks([](const std::string& path) -> Result<std::unique_ptr<Disk>> {
    std::error_code error;
    const bool there = std::filesystem::exists(path, error);
    if (error) return fail(Errc::io, "cannot look at \"" + path + "\": " + error.message());
    if (!there) return std::unique_ptr<Disk>();
    return make_posix_disk(path);
  }));
  TRY(first, wants_first_format(store));
  wanted = first;
  if (!wanted) {
    if (options_.format) log_event(LogLevel::info, "format_not_needed", {{"meaning", kNotNeeded}});
    return Result<>{};
  }
  CHECK_OK(may_format(paths));
  std::vector<MapVolume> volumes;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    MapVolume volume;
    volume.id = VolumeId{random_.next()};
    volume.name = "v" + std::to_string(i);
    volume.host = "local";
    volumes.push_back(std::move(volume));
  }
  const auto cluster = random_.id128<ClusterId>();
  TRY(map, make_map(cluster, std::move(volumes), kGroups, options_.policy.get()));
  CHECK_OK(open_disks([](const std::string& path) { return make_volume_directory(path); }));
  ThreadWorker worker("format", 1);
  CHECK_OK(format_store(store, map, clock_, random_, worker));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    log_event(LogLevel::info, "volume_format",
              {{"volume", map.volumes[i].name}, {"path", paths[i]}});
  }
  formatted_ = true;
  return Result<>{};
}

}  // namespace penstock
