#include "server/node/store_start.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "penstock/log.h"
#include "penstock/wait_on.h"
#include "placement/map_change.h"
#include "server/membership/map_install.h"
#include "server/node/mounts.h"
#include "server/node/store_format.h"
#include "server/node/volume_notes.h"

namespace penstock {
namespace {

constexpr std::chrono::seconds kLockPatience{3};  // for a process that is just ending

// The map that the volume holds; the one before it, should it not be readable.
std::string readable_map(const Volume& volume) {
  std::string text = volume.get_map();
  if (ClusterMap::parse(text)) return text;
  log_event(LogLevel::error, "map_unreadable", {{"path", volume.path()}});
  return volume.get_old_map();
}

// Is more than half of the volumes there, with and without the one that joins?
bool enough_there(const ClusterMap& map, const std::set<VolumeId>& there) {
  const auto change = change_of(map);
  const auto more_than_half = [&](VolumeId without) {
    std::size_t all = 0, found = 0;
    for (const auto& volume : map.volumes) {
      if (volume.id == without) continue;
      ++all;
      found += there.contains(volume.id) ? 1 : 0;
    }
    return found * 2 > all;
  };
  if (!change) return more_than_half(VolumeId{});
  return more_than_half(change->joining) && more_than_half(change->leaving);
}

// A volume whose map says where it is served belongs to a cluster. A majority of volumes has taken
// such a map, so that one of any majority tells.
Result<> check_no_cluster(const std::vector<FoundVolume>& found) {
  for (const auto& volume : found) {
    if (!volume.volume) continue;
    const auto map = ClusterMap::parse(readable_map(*volume.volume));
    const MapVolume* entry = map ? map->find(volume.volume->id()) : nullptr;
    if (!entry || entry->address.empty()) continue;
    return fail(Errc::invalid, volume.path + " belongs to a cluster, which serves it at " +
                                   entry->address +
                                   ": start it with `penstock server`, not with `penstock local`");
  }
  return {};
}

// See the head of store_start.h. Of two maps of one epoch, which only a change that was cut off
// twice can leave, the one with more holders counts.
Result<std::shared_ptr<const ClusterMap>> choose_map(const std::vector<FoundVolume>& found) {
  std::map<std::string, std::size_t> holders;
  std::set<VolumeId> there;
  std::string reasons;
  for (const auto& volume : found) {
    if (volume.volume) {
      there.insert(volume.volume->id());
      ++holders[readable_map(*volume.volume)];
    } else {
      reasons += "; " + volume.path + ": " + volume.error.context;
    }
  }
  std::shared_ptr<const ClusterMap> best;
  std::size_t most = 0;
  for (const auto& [json, count] : holders) {
    auto map = ClusterMap::parse(json);
    if (!map || !enough_there(*map, there)) continue;
    if (best && (map->epoch < best->epoch || (map->epoch == best->epoch && count <= most))) {
      continue;
    }
    best = std::make_shared<ClusterMap>(std::move(*map));
    most = count;
  }
  if (best) return best;
  return fail(Errc::corrupt,
              "more than half of the volumes must be there and agree on the cluster" + reasons);
}

// The volumes in their first directories tell of those that came later.
std::vector<std::string> noted_places(const StoreDirectories& directories,
                                      const std::vector<FoundVolume>& found) {
  std::vector<std::string> places;
  for (const auto& volume : found) {
    if (!volume.volume) continue;
    for (const auto& [name, bytes] : volume.volume->notes()) {
      if (name.starts_with(kPathNote)) places.push_back(directories.place_of(bytes));
    }
  }
  return places;
}

// Is there a volume of this cluster below a single directory, other than those that are open here?
bool holds_others(VolumeOpener& opener, const std::string& directory, ClusterId cluster,
                  const std::set<std::string>& open) {
  const auto places = StoreDirectories({directory}, 0).first_places();
  opener.find_hung(places);
  for (const std::string& place : places) {
    if (opener.hung_paths().contains(place) || open.contains(real_path(place))) continue;
    const auto disk = make_posix_disk(place);
    const auto identity = disk ? read_identity(**disk) : Result<VolumeIdentity>(disk.error());
    if (identity && identity->cluster == cluster) return true;
  }
  return false;
}

// A volume that no readable directory holds lies in one of those that could not be read: in which,
// only one that is left tells.
void find_unread(VolumeSlots& slots, const std::vector<FoundVolume>& found) {
  VolumeSlots lost;
  std::set<std::string> known;
  for (const auto& slot : slots) {
    if (slot->path.empty()) lost.push_back(slot);
    known.insert(slot->path);
  }
  std::vector<const FoundVolume*> unread;
  std::string paths;
  for (const auto& volume : found) {
    if (volume.volume || volume.error.code == Errc::not_found || known.contains(volume.path)) {
      continue;
    }
    unread.push_back(&volume);
    paths += (paths.empty() ? "" : ", ") + volume.path;
  }
  if (unread.empty() || lost.size() != unread.size()) return;
  for (const auto& slot : lost) {
    slot->hung = std::any_of(unread.begin(), unread.end(), [](auto* one) { return one->hung; });
    slot->refused = refusal(VolumeStatus::State::closed, "it lies in one of these: " + paths);
    if (unread.size() > 1) continue;
    slot->path = unread.front()->path;
    slot->refused.reason = unread.front()->error.context;
  }
}

void tell_unknown(const FoundVolume& found, const ClusterMap& map) {
  if (!found.volume) {
    if (found.error.code == Errc::not_found) return;  // where a volume was that has been replaced
    log_event(LogLevel::error, "volume_unknown",
              {{"path", found.path}, {"reason", found.error.context}});
  } else if (found.volume->cluster() == map.cluster && map.find(found.volume->id())) {
    log_event(LogLevel::warn, "volume_twice",
              {{"path", found.path},
               {"meaning", "this store has that volume elsewhere: one is a copy, or of a copy"}});
  } else if (found.volume->cluster() == map.cluster) {
    log_event(LogLevel::warn, "volume_not_in_the_map",
              {{"path", found.path},
               {"meaning", "it was replaced, or never joined; its directory may be removed"}});
  } else {
    log_event(LogLevel::error, "volume_unknown",
              {{"path", found.path}, {"reason", "it is of another cluster"}});
  }
}

void warn_of_shared_devices(const VolumeSlots& slots) {
  std::map<dev_t, std::string> devices;
  for (const auto& slot : slots) {
    struct stat status {};
    if (!slot->volume || slot->path.empty() || stat(slot->path.c_str(), &status) != 0) continue;
    auto& names = devices[status.st_dev];
    names += (names.empty() ? "" : " ") + slot->entry.name;
  }
  for (const auto& [device, names] : devices) {
    if (names.find(' ') == std::string::npos) continue;
    log_event(LogLevel::warn, "volumes_share_a_device",
              {{"volumes", names}, {"meaning", "they are lost together; give one per disk"}});
  }
}

}  // namespace

Result<> StoreStart::run() {
  Founds found;
  auto started = open_and_place(found);
  std::vector<std::shared_ptr<Volume>> unplaced;
  for (FoundVolume& each : found) {
    if (each.volume) unplaced.push_back(std::move(each.volume));
  }
  parts_.volumes.keep_to_close(std::move(unplaced));
  return started;
}

// `found` holds what is open and has no place yet.
Result<> StoreStart::open_and_place(Founds& found) {
  parts_.opener.find_hung(known_places());
  CHECK_OK(format_if_wanted());
  CHECK_OK(open_all(found));
  if (!parts_.options.as_it_is) CHECK_OK(check_no_cluster(found));
  const auto map = choose_map(found);
  if (!map) {
    for (const auto& volume : found) {
      if (!volume.volume && volume.error.code == Errc::busy) return volume.error;
    }
    return map.error();
  }
  parts_.volumes.place(*map, fill_slots(**map, std::exchange(found, {})));
  parts_.volumes.admit();
  note_homes();
  CHECK_OK(agree_epochs());
  warn_of_shared_devices(parts_.volumes.slots());
  return {};
}

Result<> StoreStart::format_if_wanted() {
  // What hangs may hold a volume: nothing is formatted beside it.
  if (!hung_paths().empty() || parts_.options.as_it_is) return {};
  TRY(formatted, format_if_new({parts_.directories, parts_.options.format,
                                parts_.options.policy.get(), parts_.clock, parts_.random}));
  formatted_ = formatted;
  return {};
}

// ---- find and open

std::vector<std::string> StoreStart::known_places() const {
  auto places = parts_.directories.first_places();
  const auto listed = parts_.directories.listed_places();
  places.insert(places.end(), listed.begin(), listed.end());
  return places;
}

Result<> StoreStart::open_all(Founds& found) {
  std::set<std::string> seen;
  const auto name_of = [&](const std::string& path) {
    return may_hang(path) ? path : real_path(path);
  };
  std::vector<std::string> places = known_places();
  while (!places.empty()) {
    for (const auto& path : places) {
      const std::string name = name_of(path);  // once: later a disk may hang
      if (!seen.insert(name).second) continue;
      real_[path] = name;
      found.push_back(open_unlocked(path));
      const auto code = found.back().error.code;
      // A newer format is no lost disk: starting without it would harm.
      if (found.back().volume) continue;
      if (code == Errc::overloaded) return fail(code, found.back().error.context);
      if (code == Errc::invalid) return fail(code, path + ": " + found.back().error.context);
    }
    places = noted_places(parts_.directories, found);
    parts_.opener.find_hung(places);
    std::erase_if(places, [&](const auto& path) { return seen.contains(name_of(path)); });
  }
  CHECK_OK(check_no_copy(found));
  parts_.directories.list_places(noted_places(parts_.directories, found));
  return {};
}

// A copy of the store's directory remembers the volumes elsewhere as the original does, and they
// are no copies: what ran on them would be taken for one of the two, and the other for an old copy.
Result<> StoreStart::check_no_copy(const Founds& found) {
  if (!parts_.directories.is_single()) return {};
  const std::string& here = parts_.directories.home();
  std::set<std::string> open;
  for (const auto& volume : found) {
    if (volume.volume) open.insert(real_[volume.path]);
  }
  for (const auto& volume : found) {
    if (!volume.volume || parts_.directories.is_below(real_[volume.path])) continue;
    const auto home = volume.volume->get_note(std::string(kHomeNote));
    if (!home) continue;
    parts_.opener.find_hung({*home});
    std::error_code ignored;
    if (may_hang(*home) || std::filesystem::equivalent(*home, here, ignored)) continue;
    if (!holds_others(parts_.opener, *home, volume.volume->cluster(), open)) continue;
    return fail(Errc::invalid, "\"" + volume.path + "\" is a volume of the store in \"" + *home +
                                   "\", and \"" + here +
                                   "\" is a copy of that: the two must not use one volume. Start "
                                   "that one. If this one is to take its place, move that one "
                                   "away first");
  }
  return {};
}

void StoreStart::note_homes() {
  // An old copy, whose own volumes are refused for that, is nobody's home unless the others are a
  // majority.
  std::set<VolumeId> open;
  for (const auto& volume : parts_.volumes.states()) {
    if (volume.status.state == VolumeStatus::State::open) open.insert(volume.id);
  }
  if (!enough_there(*parts_.volumes.map(), open)) return;
  for (const auto& slot : parts_.volumes.slots()) {
    if (!slot->volume) continue;
    const auto home = slot->volume->get_note(std::string(kHomeNote));
    if (home && may_hang(*home)) continue;  // whether this is a copy of that, a later start can see
    const auto noted = parts_.notes.note_home(*slot, real_[slot->path], parts_.directories);
    if (noted) continue;
    log_event(LogLevel::warn, "note_failed",
              {{"volume", slot->entry.name}, {"reason", noted.error().context}});
  }
}

// A process that is stuck in another disk may hold this volume for hours: the others go on.
FoundVolume StoreStart::open_unlocked(const std::string& path) {
  while (true) {
    FoundVolume found = parts_.opener.open(path);
    if (found.volume || found.error.code != Errc::busy) return found;
    const auto now = std::chrono::steady_clock::now();
    if (!unlocked_by_) unlocked_by_ = now + kLockPatience;
    if (now < *unlocked_by_) {
      std::this_thread::sleep_for(limits::kDiskLook);
      continue;
    }
    found.error.context = path +
                          " is in use by another process: stop it. If it is stuck in a disk "
                          "that hangs, it ends when that disk answers, or with a boot";
    log_event(LogLevel::error, "volume_closed",
              {{"volume", path}, {"reason", found.error.context}});
    return found;
  }
}

// ---- give each its place

// Where the volume of this entry lies, should it not tell itself.
std::string StoreStart::path_of(const MapVolume& entry, const Founds& found) const {
  for (const auto& volume : found) {
    if (!volume.volume) continue;
    const auto noted = volume.volume->get_note(path_note(entry.id));
    if (noted) return parts_.directories.place_of(*noted);
  }
  if (!parts_.directories.is_single()) return {};
  return parts_.directories.paths().front() + "/" + entry.name;
}

// Beside the reason why a volume is missing.
std::string StoreStart::mount_hint(const std::string& path, const Founds& found) const {
  if (parts_.directories.is_single()) return {};
  auto answering = parts_.directories.paths();
  std::erase_if(answering, [&](const std::string& peer) {
    const auto hangs = [&](const FoundVolume& one) { return one.hung && one.path == peer; };
    return may_hang(peer) || std::any_of(found.begin(), found.end(), hangs);
  });
  const auto why = looks_unmounted(path, answering);
  return why ? "; " + *why : "";
}

std::shared_ptr<VolumeSlot> StoreStart::fill_slot(const MapVolume& entry, const ClusterMap& map,
                                                  const Founds& found) const {
  auto slot = std::make_shared<VolumeSlot>();
  slot->entry = entry;
  slot->refused = refusal(VolumeStatus::State::missing, "no directory holds it");
  const std::string expected = path_of(entry, found);
  for (const auto& volume : found) {
    if (volume.volume && volume.volume->id() == entry.id) {
      slot->path = volume.path;
      if (volume.volume->cluster() == map.cluster) slot->volume = volume.volume;
    } else if (!volume.volume && volume.path == expected) {
      slot->path = volume.path;
      const bool missing = volume.error.code == Errc::not_found;
      slot->hung = volume.hung;
      slot->refused =
          refusal(missing ? VolumeStatus::State::missing : VolumeStatus::State::closed,
                  volume.error.context + (missing ? mount_hint(volume.path, found) : ""));
    }
  }
  return slot;
}

VolumeSlots StoreStart::fill_slots(const ClusterMap& map, const Founds& found) const {
  VolumeSlots slots;
  for (const auto& entry : map.volumes) slots.push_back(fill_slot(entry, map, found));
  find_unread(slots, found);
  for (const auto& volume : found) {
    const bool known = std::any_of(slots.begin(), slots.end(),
                                   [&](const auto& slot) { return slot->path == volume.path; });
    if (!known) tell_unknown(volume, map);
  }
  return slots;
}

// R12: whatever epochs a volume was stopped at, it now takes those of the map. One that cannot is
// left out; one that was about to join waits until the change goes on.
Result<> StoreStart::agree_epochs() {
  const auto slots = parts_.volumes.slots();
  for (const auto& slot : slots) {
    if (!slot->volume) tell_lost(slot->entry.name, slot->refused);
  }
  const Deadline deadline = parts_.clock.boot() + Duration(limits::kOperationDeadline);
  auto install =
      install_map(parts_.volumes.map(), parts_.volumes.clients(), parts_.clock, deadline);
  TRY(installed, wait_on(parts_.io.at(0), std::move(install), "a call to a volume"));
  for (const auto& [id, error] : installed.failed) {
    for (const auto& slot : slots) {
      if (slot->entry.id != id || error.code != Errc::stale_epoch) continue;
      parts_.volumes.refuse(*slot, "it holds another version of the map: " + error.context);
      tell_lost(slot->entry.name, slot->refused);
    }
  }
  return {};
}

}  // namespace penstock
