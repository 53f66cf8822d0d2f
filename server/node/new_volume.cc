#include "server/node/new_volume.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "penstock/log.h"
#include "server/node/first_format.h"
#include "server/node/mounts.h"
#include "server/node/volume_notes.h"
#include "server/volume/disk/disk_watch.h"
#include "server/volume/volume_format.h"

namespace penstock {
namespace {
// "v6": one more than the highest number in use.
std::string free_name(const ClusterMap& map) {
  unsigned long next = 0;
  for (const auto& volume : map.volumes) {
    const std::string digits = volume.name.size() > 1 ? volume.name.substr(1) : "";
    const bool counted = volume.name.starts_with("v") && !digits.empty() && digits.size() < 9 &&
                         digits.find_first_not_of("0123456789") == std::string::npos;
    if (counted) next = std::max(next, std::stoul(digits) + 1);
  }
  return "v" + std::to_string(next);
}

// Of the disk that the directory lies on, or will: what segments may take (space_guard.h).
Result<std::uint64_t> room_at(const std::string& path, const SpaceOptions& options) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(path, error);
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) {
    there = there.parent_path();
  }
  const auto space = std::filesystem::space(there, error);
  if (error) return fail(Errc::io, "cannot look at \"" + there.string() + "\": " + error.message());
  return options.growth(space.capacity, space.available);
}

std::string in_mib(std::uint64_t bytes) {
  return std::to_string((bytes + limits::kMiB - 1) / limits::kMiB) + " MiB";
}

// A directory above that is a volume, also one that is closed, replaced or of another store.
std::string volume_around(const std::filesystem::path& place) {
  std::error_code ignored;
  for (auto above = place.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    if (std::filesystem::exists(above / kIdentityFile, ignored)) return above.string();
  }
  return {};
}

Error cannot_use(const std::string& path, const Error& error) {
  if (error.code != Errc::invalid) return error;
  return fail(Errc::invalid, error.context +
                                 ". A new volume needs an empty directory: give another one, or "
                                 "empty \"" +
                                 path + "\" if nothing in it is needed any more.");
}

Result<> format_directory(const std::string& path, const std::vector<std::string>& peers,
                          const VolumeIdentity& identity, const std::string& map,
                          const std::shared_ptr<DiskWatch>& watch, Clock& clock, Random& random) {
  auto looking = std::make_unique<DiskWatch::Call>(*watch, "look");
  if (const auto why = looks_unmounted(path, peers)) {
    return fail(Errc::invalid, *why + " Mount it, or give a directory on a disk of its own");
  }
  TRY(made, make_volume_directory(path));
  looking.reset();
  const auto disk = make_watched_disk(std::move(made), watch);
  ThreadWorker worker("format", 1);
  const auto formatted = format_volume(*disk, clock, random, worker, identity, map);
  if (!formatted) return cannot_use(path, formatted.error());
  return {};
}

}  // namespace

NewVolume::NewVolume(VolumeSet& volumes, VolumeOpener& opener, StartNotes& notes,
                     const StoreDirectories& directories, Clock& clock, Random& random)
    : volumes_(volumes),
      opener_(opener),
      notes_(notes),
      directories_(directories),
      clock_(clock),
      random_(random) {}

// A volume within another would be lost with it; links must not hide that.
Result<> NewVolume::check_apart(const std::string& path) {
  const auto below = [](const std::string& one, const std::string& other) {
    return one.starts_with(other + "/");
  };
  auto place = std::make_shared<std::string>();
  auto around = std::make_shared<std::string>();
  auto job = [place, around, path](const std::shared_ptr<DiskWatch>& watch) {
    const DiskWatch::Call call(*watch, "look");
    *place = real_path(path);
    *around = volume_around(*place);
  };
  CHECK_OK(opener_.run_on_new_disk(path, std::move(job)));
  if (!around->empty()) {
    return fail(Errc::invalid, "\"" + path + "\" lies within the volume in \"" + *around +
                                   "\", and would be removed with it: give the directory of a new "
                                   "disk");
  }
  for (const auto& volume : volumes_.states()) {
    const bool open = volume.status.state == VolumeStatus::State::open && !volume.stalled;
    if (volume.path.empty() || !open) continue;
    const std::string other = real_path(volume.path);
    if (!below(*place, other) && !below(other, *place)) continue;
    return fail(Errc::invalid, "\"" + path + "\" and volume " + volume.name + " (\"" + volume.path +
                                   "\") lie within each other: give the directory of a new disk");
  }
  return {};
}

Result<NewVolume::Prepared> NewVolume::prepare(const std::string& path) {
  CHECK_OK(check_apart(path));
  const auto now = volumes_.map();
  for (const auto& slot : volumes_.slots()) {
    const bool open = slot->volume && slot->volume->status().state == VolumeStatus::State::open;
    if (slot->path != path || !open) continue;
    if (now->find(slot->entry.id) == nullptr) return Prepared{slot->entry, slot->volume};
    return fail(Errc::invalid, "\"" + path + "\" is volume " + slot->entry.name +
                                   " of this store: give the directory of a new disk");
  }
  Prepared prepared;
  prepared.entry.id = VolumeId{random_.next()};
  prepared.entry.name = free_name(*now);
  CHECK_OK(format(path, VolumeIdentity{now->cluster, prepared.entry.id}, now->to_json()));
  log_event(LogLevel::info, "volume_format", {{"volume", prepared.entry.name}, {"path", path}});
  auto found = opener_.open(path);
  if (!found.volume) return found.error;
  volumes_.watch_for_stalls(found.volume);
  if (auto joined = join(prepared.entry, path, found.volume); !joined) {
    volumes_.watch_no_more(found.volume);
    if (found.volume->stalled()) opener_.count_given_up();
    return std::move(joined).error();
  }
  prepared.client = found.volume;
  return prepared;
}

Result<> NewVolume::format(const std::string& path, VolumeIdentity identity,
                           const std::string& map) {
  // What lies below a single directory says nothing of disks.
  const std::string below = directories_.paths().front() + "/";
  std::vector<std::string> peers;
  for (const auto& volume : volumes_.states()) {
    const bool inside = directories_.is_single() && volume.path.starts_with(below);
    if (!volume.path.empty() && !inside) peers.push_back(volume.path);
  }
  auto formatted = std::make_shared<Result<>>();
  auto job = [formatted, path, others = volumes_.answering(std::move(peers)), identity, map,
              &clock = clock_, &random = random_](const std::shared_ptr<DiskWatch>& watch) {
    *formatted = format_directory(path, others, identity, map, watch, clock, random);
  };
  CHECK_OK(opener_.run_on_new_disk(path, std::move(job)));
  return std::move(*formatted);
}

Result<> NewVolume::join(const MapVolume& entry, const std::string& path,
                         const std::shared_ptr<Volume>& volume) {
  CHECK_OK(StartNotes::count_start(volume));
  auto slot = std::make_shared<VolumeSlot>();
  slot->entry = entry;
  slot->path = path;
  slot->volume = volume;
  // Before the map names it: a start that finds the map finds the volume, too.
  CHECK_OK(notes_.note_path(*slot, volumes_.slots(), directories_));
  directories_.list_places({path});
  volumes_.add(slot);
  notes_.note_start(*slot, volumes_.slots());
  volume->admit(true);
  return {};
}

Result<> NewVolume::check_room(const std::string& path, VolumeId leaving) {
  std::uint64_t held = 0;
  std::string holder;
  for (const auto& volume : volumes_.states()) {
    if (volume.status.state != VolumeStatus::State::open) continue;
    if (volume.id != leaving && volume.status.fragment_bytes < held) continue;
    held = volume.status.fragment_bytes;
    holder = volume.name;
    if (volume.id == leaving) break;
  }
  auto found = std::make_shared<Result<std::uint64_t>>(std::uint64_t{0});
  auto job = [found, path,
              options = opener_.options().space](const std::shared_ptr<DiskWatch>& watch) {
    const DiskWatch::Call call(*watch, "look");
    *found = room_at(path, options);
  };
  CHECK_OK(opener_.run_on_new_disk(path, std::move(job)));
  TRY(room, std::move(*found));
  if (room >= held) return {};
  return fail(Errc::full, "\"" + path + "\" has room for " + in_mib(room) + ", but " + holder +
                              " holds " + in_mib(held) + ": give a larger disk");
}

}  // namespace penstock
