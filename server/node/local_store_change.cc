// Volumes that come and go while the store runs.
#include <algorithm>
#include <filesystem>
#include <set>

#include "penstock/log.h"
#include "server/node/first_format.h"
#include "server/node/local_store.h"
#include "server/node/mounts.h"
#include "server/node/volume_notes.h"
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
  const auto fraction =
      static_cast<std::uint64_t>(static_cast<double>(space.capacity) * options.reserve_fraction);
  const std::uint64_t reserve = std::max(fraction, options.reserve_bytes);
  const std::uint64_t kept = reserve + reserve / 2;
  return space.available > kept ? space.available - kept : 0;
}

std::string in_mib(std::uint64_t bytes) {
  return std::to_string((bytes + limits::kMiB - 1) / limits::kMiB) + " MiB";
}

Error cannot_use(const std::string& path, const Error& error) {
  if (error.code != Errc::invalid) return error;
  return fail(Errc::invalid, error.context +
                                 ". A new volume needs an empty directory: give another one, or "
                                 "empty \"" + path + "\" if nothing in it is needed any more.");
}

}  // namespace

Result<LocalStore::Prepared> LocalStore::prepare_volume(const std::string& path) {
  const auto now = map();
  for (const auto& slot : slots()) {
    const bool open = slot->volume && slot->volume->status().state == VolumeStatus::State::open;
    if (slot->path != path || !open) continue;
    if (now->find(slot->entry.id) == nullptr) return Prepared{slot->entry, slot->volume};
    return fail(Errc::invalid, "\"" + path + "\" is volume " + slot->entry.name +
                                   " of this store: give the directory of a new disk");
  }
  // What lies below a single directory says nothing of disks.
  const std::string below = options_.directories.front() + "/";
  std::vector<std::string> peers;
  for (const auto& volume : states()) {
    const bool inside = options_.directories.size() == 1 && volume.path.starts_with(below);
    if (!volume.path.empty() && !inside) peers.push_back(volume.path);
  }
  if (const auto why = looks_unmounted(path, peers)) {
    return fail(Errc::invalid, *why + " Mount it, or give a directory on a disk of its own");
  }
  Prepared prepared;
  prepared.entry.id = VolumeId{random_.next()};
  prepared.entry.name = free_name(*now);
  {
    TRY(disk, make_volume_directory(path));
    ThreadWorker worker("format", 1);
    const VolumeIdentity identity{now->cluster, prepared.entry.id};
    const auto formatted = format_volume(*disk, clock_, random_, worker, identity, now->to_json());
    if (!formatted) return cannot_use(path, formatted.error());
  }
  log_event(LogLevel::info, "volume_format", {{"volume", prepared.entry.name}, {"path", path}});
  auto found = open_watched(path);
  if (!found.volume) return found.error;
  CHECK_OK(found.volume->count_start());
  // Before the map names it: a start that finds the map finds the volume, too.
  for (const auto& peer : slots()) {
    if (!peer->volume) continue;
    const auto noted = wait(peer->volume->put_note(path_note(prepared.entry.id), path,
                                                 note_deadline()));
    if (!noted) {
      log_event(LogLevel::warn, "note_failed",
                {{"volume", peer->entry.name}, {"reason", noted.error().context}});
    }
  }
  CHECK_OK(wait(found.volume->put_note(path_note(prepared.entry.id), path)));
  list_paths({path});
  auto slot = std::make_shared<Slot>();
  slot->entry = prepared.entry;
  slot->path = path;
  slot->volume = found.volume;
  prepared.client = found.volume;
  {
    const std::lock_guard lock(mutex_);
    slots_.push_back(slot);
  }
  watch_volume(slot->volume);
  note_start(*slot);
  return prepared;
}

Result<> LocalStore::check_room(const std::string& path, VolumeId leaving) const {
  std::uint64_t held = 0;
  std::string holder;
  for (const auto& volume : states()) {
    if (volume.status.state != VolumeStatus::State::open) continue;
    if (volume.id != leaving && volume.status.fragment_bytes < held) continue;
    held = volume.status.fragment_bytes;
    holder = volume.name;
    if (volume.id == leaving) break;
  }
  TRY(room, room_at(path, options_.volume.space));
  if (room >= held) return {};
  return fail(Errc::full, "\"" + path + "\" has room for " + in_mib(room) + ", but " + holder +
                              " holds " + in_mib(held) + ": give a larger disk");
}

void LocalStore::take_map(std::shared_ptr<const ClusterMap> map) {
  std::vector<std::shared_ptr<Slot>> leaving;
  {
    const std::lock_guard lock(mutex_);
    const bool newer = map->epoch > map_->epoch;
    for (auto& slot : slots_) {
      const MapVolume* entry = map->find(slot->entry.id);
      if (newer && entry == nullptr && map_->find(slot->entry.id) != nullptr) {
        leaving.push_back(slot);
      }
    }
    if (!newer) return;
    map_ = std::move(map);
    std::erase_if(slots_, [&](const auto& slot) {
      return std::find(leaving.begin(), leaving.end(), slot) != leaving.end();
    });
    retired_.insert(retired_.end(), leaving.begin(), leaving.end());
  }
  for (const auto& slot : leaving) {
    log_event(LogLevel::info, "volume_retired",
              {{"volume", slot->entry.name},
               {"path", slot->path},
               {"meaning", "it was replaced; its directory may be removed after the next start"}});
    if (slot->volume) slot->volume->retire();
  }
}

}  // namespace penstock
