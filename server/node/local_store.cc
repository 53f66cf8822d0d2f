#include "server/node/local_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include "penstock/caught.h"
#include "penstock/log.h"
#include "placement/map_change.h"
#include "server/membership/map_install.h"
#include "server/node/mounts.h"
#include "server/node/volume_list.h"
#include "server/node/volume_notes.h"

namespace penstock {
namespace {
namespace fs = std::filesystem;

VolumeStatus refusal(VolumeStatus::State state, std::string reason) {
  VolumeStatus status;
  status.state = state;
  status.reason = std::move(reason);
  return status;
}

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
}  // namespace

LocalStore::LocalStore(LocalStoreOptions options, IoThreads& io, Clock& clock, Random& random,
                       BufferPool& buffers)
    : options_(std::move(options)), io_(io), clock_(clock), random_(random), buffers_(buffers) {
  for (std::string& directory : options_.directories) directory = plain_path(directory);
}

LocalStore::~LocalStore() { close_all(); }

std::size_t LocalStore::close(Duration patience) {
  const std::size_t before = stalled();
  auto closed = std::make_shared<std::promise<void>>();
  const auto answer = closed->get_future();
  std::thread([this, closed] {
    try {
      close_all();
    } catch (...) {
      report_exception("the end of the volumes");
      return;  // they count as left behind
    }
    closed->set_value();
  }).detach();
  // What begins to hang in these last steps is no longer looked for.
  if (answer.wait_for(patience) == std::future_status::ready) return before;
  return before + 1;  // at least: stalled ones are passed over
}

Result<> LocalStore::start() {
  std::vector<Found> found;
  auto started = open_and_place(found);
  for (Found& each : found) {
    if (each.volume) unplaced_.push_back(std::move(each.volume));
  }
  return started;
}

Result<> LocalStore::open_and_place(std::vector<Found>& found) {
  auto paths = volume_paths();
  const auto listed = listed_paths();
  paths.insert(paths.end(), listed.begin(), listed.end());
  find_hung(paths);
  CHECK_OK(format_if_new());
  CHECK_OK(open_all(found));
  const auto chosen = choose_map(found);
  if (!chosen) {
    for (const auto& volume : found) {
      if (!volume.volume && volume.error.code == Errc::busy) return volume.error;
    }
    return chosen.error();
  }
  fill_slots(std::exchange(found, {}));
  refuse_old_copies();
  count_starts();
  CHECK_OK(agree_epochs());
  warn_of_shared_devices();
  return {};
}

// The volumes in their first directories tell of those that came later.
Result<> LocalStore::open_all(std::vector<Found>& found) {
  std::set<std::string> seen;
  std::vector<std::string> paths = volume_paths();
  const auto listed = listed_paths();
  paths.insert(paths.end(), listed.begin(), listed.end());
  while (!paths.empty()) {
    for (const auto& path : paths) {
      const std::string real = hung_paths_.contains(path) ? path : real_path(path);
      if (!seen.insert(real).second) continue;
      found.push_back(open_unlocked(path));
      const auto code = found.back().error.code;
      // A newer format is no lost disk: starting without it would harm.
      if (found.back().volume) continue;
      if (code == Errc::overloaded) return fail(code, found.back().error.context);
      if (code == Errc::invalid) return fail(code, path + ": " + found.back().error.context);
    }
    paths = noted_paths(found);
    find_hung(paths);
    std::erase_if(paths, [&](const auto& path) {
      return seen.contains(hung_paths_.contains(path) ? path : real_path(path));
    });
  }
  list_paths(noted_paths(found));
  return Result<>{};
}

std::vector<std::string> LocalStore::noted_paths(const std::vector<Found>& found) const {
  std::vector<std::string> paths;
  for (const auto& volume : found) {
    if (!volume.volume) continue;
    for (const auto& [name, bytes] : volume.volume->notes()) {
      if (name.starts_with(kPathNote)) paths.push_back(bytes);
    }
  }
  return paths;
}

std::vector<std::string> LocalStore::listed_paths() const {
  if (options_.directories.size() > 1) return {};
  const auto above = make_posix_disk(options_.directories.front());
  if (!above) return {};
  const auto listed = read_volume_list(**above);
  if (listed) return *listed;
  log_event(LogLevel::error, "volume_list_unreadable", {{"reason", listed.error().context}});
  return {};
}

void LocalStore::list_paths(const std::vector<std::string>& paths) const {
  if (options_.directories.size() > 1 || paths.empty()) return;
  Result<> listed;
  if (auto above = make_posix_disk(options_.directories.front())) {
    listed = add_to_volume_list(**above, paths);
  } else {
    listed = above.error();
  }
  if (listed) return;
  log_event(LogLevel::warn, "volume_list_failed", {{"reason", listed.error().context}});
}

std::vector<std::string> LocalStore::volume_paths() const {
  if (options_.directories.size() > 1) return options_.directories;
  // The volumes that are there, and those that a fresh store would have.
  const std::string& base = options_.directories.front();
  std::set<unsigned> numbers;
  for (unsigned i = 0; i < options_.volumes; ++i) numbers.insert(i);
  std::error_code ignored;
  // Not a range's loop: its steps throw.
  for (auto entry = fs::directory_iterator(base, ignored);
       !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    if (name.size() < 2 || name.size() > 4 || name[0] != 'v') continue;
    if (name.find_first_not_of("0123456789", 1) != std::string::npos) continue;
    numbers.insert(static_cast<unsigned>(std::stoul(name.substr(1))));
  }
  std::vector<std::string> paths;
  for (const unsigned number : numbers) paths.push_back(base + "/v" + std::to_string(number));
  return paths;
}

LocalStore::Found LocalStore::open_volume(const std::string& path,
                                          std::shared_ptr<DiskWatch> watch) {
  Found found;
  found.path = path;
  auto opening = std::make_unique<DiskWatch::Call>(*watch, "open");
  auto disk = make_posix_disk(path);
  opening.reset();
  if (!disk) {
    found.error = disk.error();
    return found;
  }
  auto make_worker = [](std::string name, unsigned threads) -> std::unique_ptr<Worker> {
    return std::make_unique<ThreadWorker>(std::move(name), threads);
  };
  VolumeParts parts{std::move(*disk),       clock_,   random_, buffers_,
                    std::move(make_worker), devices_, std::move(watch)};
  VolumeOptions volume_options = options_.volume;
  volume_options.boot_id = options_.boot_id;
  volume_options.count_start = CountStart::later;
  auto volume = Volume::open(std::move(parts), std::move(volume_options));
  if (!volume) {
    found.error = volume.error();
    return found;
  }
  found.volume = std::move(*volume);
  return found;
}

// See the head of local_store.h. Of two maps of one epoch, which only a change that was cut off
// twice can leave, the one with more holders counts.
Result<> LocalStore::choose_map(const std::vector<Found>& found) {
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
  std::size_t most = 0;
  for (const auto& [json, count] : holders) {
    auto map = ClusterMap::parse(json);
    if (!map || !enough_there(*map, there)) continue;
    if (map_ && (map->epoch < map_->epoch || (map->epoch == map_->epoch && count <= most))) {
      continue;
    }
    map_ = std::make_shared<ClusterMap>(std::move(*map));
    most = count;
  }
  if (map_) return Result<>{};
  return fail(Errc::corrupt,
              "more than half of the volumes must be there and agree on the cluster" + reasons);
}

void LocalStore::refuse(Slot& slot, std::string reason) {
  if (slot.volume) {
    {
      const std::lock_guard lock(watch_mutex_);
      std::erase(watched_, slot.volume);
    }
    slot.volume->close();
  }
  slot.volume = nullptr;
  slot.refused = refusal(VolumeStatus::State::closed, std::move(reason));
}

// Where the volume of this entry lies, should it not tell itself.
std::string LocalStore::path_of(const MapVolume& entry, const std::vector<Found>& found) const {
  for (const auto& volume : found) {
    if (!volume.volume) continue;
    if (auto noted = volume.volume->get_note(path_note(entry.id))) return std::move(*noted);
  }
  if (options_.directories.size() > 1) return {};
  return options_.directories.front() + "/" + entry.name;
}

// Beside the reason why a volume is missing.
std::string LocalStore::mount_hint(const std::string& path) const {
  if (options_.directories.size() == 1) return {};
  const auto why = looks_unmounted(path, answering(options_.directories));
  return why ? "; " + *why : "";
}

void LocalStore::fill_slots(std::vector<Found> found) {
  for (const auto& entry : map_->volumes) {
    auto slot = std::make_shared<Slot>();
    slot->entry = entry;
    slot->refused = refusal(VolumeStatus::State::missing, "no directory holds it");
    const std::string expected = path_of(entry, found);
    for (auto& volume : found) {
      if (volume.volume && volume.volume->id() == entry.id) {
        slot->path = volume.path;
        if (volume.volume->cluster() == map_->cluster) slot->volume = volume.volume;
      } else if (!volume.volume && volume.path == expected) {
        slot->path = volume.path;
        const bool missing = volume.error.code == Errc::not_found;
        slot->hung = volume.hung;
        slot->refused =
            refusal(missing ? VolumeStatus::State::missing : VolumeStatus::State::closed,
                    volume.error.context + (missing ? mount_hint(volume.path) : ""));
      }
    }
    slots_.push_back(std::move(slot));
  }
  find_unread(found);
  for (const auto& volume : found) {
    const bool known = std::any_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
      return slot->path == volume.path;
    });
    if (!known) tell_unknown(volume);
  }
}

// A volume that no readable directory holds lies in one of those that could not be read: in which,
// only one that is left tells.
void LocalStore::find_unread(const std::vector<Found>& found) {
  std::vector<std::shared_ptr<Slot>> lost;
  std::set<std::string> known;
  for (const auto& slot : slots_) {
    if (slot->path.empty()) lost.push_back(slot);
    known.insert(slot->path);
  }
  std::vector<const Found*> unread;
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

void LocalStore::tell_unknown(const Found& found) const {
  if (!found.volume) {
    if (found.error.code == Errc::not_found) return;  // where a volume was that has been replaced
    log_event(LogLevel::error, "volume_unknown",
              {{"path", found.path}, {"reason", found.error.context}});
  } else if (found.volume->cluster() == map_->cluster) {
    log_event(LogLevel::warn, "volume_not_in_the_map",
              {{"path", found.path},
               {"meaning", "it was replaced, or never joined; its directory may be removed"}});
  } else {
    log_event(LogLevel::error, "volume_unknown",
              {{"path", found.path}, {"reason", "it is of another cluster"}});
  }
}

// R13: peers remember how often a volume was started and whether it failed in this boot; a volume
// that is behind what they saw is an old copy and must come back under a new identity.
void LocalStore::refuse_old_copies() {
  for (const auto& slot : slots_) {
    if (!slot->volume) continue;
    for (const auto& peer : slots_) {
      if (!peer->volume || peer == slot) continue;
      if (knows_later_start(*peer->volume, *slot->volume)) {
        const auto starts = peer->volume->get_note(starts_note(slot->entry.id));
        refuse(*slot, "it is an old copy: started " +
                          std::to_string(slot->volume->start_counter()) + " times, but " +
                          peer->entry.name + " saw " + *starts);
        break;
      }
      const auto failed = peer->volume->get_note(failure_note(slot->entry.id));
      if (failed && !options_.boot_id.empty() && *failed == options_.boot_id) {
        refuse(*slot, "it failed since the machine was booted; boot again or replace it");
        break;
      }
    }
  }
}

// Only now: the count of a copy that was refused stays what it was.
void LocalStore::count_starts() {
  for (const auto& slot : slots_) {
    if (slot->volume) watch_volume(slot->volume);
  }
  stall_watch_ = std::thread([this] { watch_for_stalls(); });
  for (const auto& slot : slots_) {
    if (!slot->volume) continue;
    const auto counted = count_start(slot->volume);
    if (!counted) refuse(*slot, "its start cannot be counted: " + counted.error().context);
  }
  for (const auto& slot : slots_) {
    if (slot->volume) note_start(*slot);
  }
}

void LocalStore::note_start(const Slot& started) {
  for (const auto& peer : slots()) {
    if (!peer->volume || peer.get() == &started) continue;
    const auto noted = wait(peer->volume->put_note(
        starts_note(started.entry.id), std::to_string(started.volume->start_counter()),
        note_deadline()));
    if (noted) continue;
    log_event(LogLevel::warn, "note_failed",
              {{"volume", peer->entry.name}, {"reason", noted.error().context}});
  }
}

// R12: whatever epochs a volume was stopped at, it now takes those of the map. One that cannot is
// left out; one that was about to join waits until the change goes on.
Result<> LocalStore::agree_epochs() {
  for (const auto& slot : slots_) {
    if (slot->volume) continue;
    log_event(LogLevel::error, "volume_lost",
              {{"volume", slot->entry.name},
               {"state", std::string(state_name(slot->refused.state))},
               {"reason", slot->refused.reason}});
  }
  const Deadline deadline = clock_.boot() + Duration(limits::kOperationDeadline);
  TRY(installed, wait(install_map(map_, clients(), clock_, deadline)));
  for (const auto& [id, error] : installed.failed) {
    for (const auto& slot : slots_) {
      if (slot->entry.id != id || error.code != Errc::stale_epoch) continue;
      refuse(*slot, "it holds another version of the map: " + error.context);
      log_event(LogLevel::error, "volume_lost",
                {{"volume", slot->entry.name}, {"state", "closed"},
                 {"reason", slot->refused.reason}});
    }
  }
  return Result<>{};
}

void LocalStore::warn_of_shared_devices() const {
  std::map<dev_t, std::string> devices;
  for (const auto& slot : slots_) {
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

std::shared_ptr<const ClusterMap> LocalStore::map() const {
  const std::lock_guard lock(mutex_);
  return map_;
}

std::vector<std::shared_ptr<LocalStore::Slot>> LocalStore::slots() const {
  const std::lock_guard lock(mutex_);
  return slots_;
}

std::vector<std::shared_ptr<VolumeClient>> LocalStore::clients() const {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const auto& slot : slots()) {
    if (slot->volume) clients.push_back(slot->volume);
  }
  return clients;
}

std::shared_ptr<VolumeClient> LocalStore::client(VolumeId id) const {
  for (const auto& slot : slots()) {
    if (slot->entry.id == id) return slot->volume;
  }
  return nullptr;
}

std::vector<LocalStore::VolumeState> LocalStore::states() const {
  std::vector<VolumeState> states;
  for (const auto& slot : slots()) {
    states.push_back({slot->entry.id, slot->entry.name, slot->path,
                      slot->volume ? slot->volume->status() : slot->refused,
                      slot->volume ? slot->volume->stalled() : slot->hung});
  }
  return states;
}

bool LocalStore::ready_for_writes() const {
  const auto now = map();
  std::set<VolumeId> open;
  std::size_t roomy = 0;
  for (const auto& slot : slots()) {
    if (!slot->volume) continue;
    const auto status = slot->volume->status();
    if (status.state != VolumeStatus::State::open) continue;
    open.insert(slot->entry.id);
    if (!status.full) ++roomy;
  }
  if (roomy < 1 + std::min(now->policy.m, 1u)) return false;
  const auto majority_open = [&](const std::vector<VolumeId>& list) {
    return has_majority(list, [&](VolumeId id) { return open.contains(id); });
  };
  return std::all_of(now->groups.begin(), now->groups.end(), [&](const MapGroup& group) {
    return majority_open(group.replicas) && (group.joint.empty() || majority_open(group.joint));
  });
}

}  // namespace penstock
