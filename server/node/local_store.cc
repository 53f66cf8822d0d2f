#include "server/node/local_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <filesystem>
#include <future>
#include <set>

#include "penstock/log.h"
#include "server/volume/volume_format.h"

namespace penstock {
namespace {
namespace fs = std::filesystem;

constexpr std::uint32_t kGroups = 256;

std::string hex_name(std::uint64_t id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id));
  return text;
}

// Notes about other volumes: the highest start counter seen, and the boot in which one failed.
std::string starts_note(VolumeId id) { return "starts/" + hex_name(id.value); }
std::string failure_note(VolumeId id) { return "failed/" + hex_name(id.value); }

VolumeStatus refusal(VolumeStatus::State state, std::string reason) {
  VolumeStatus status;
  status.state = state;
  status.reason = std::move(reason);
  return status;
}

std::string_view state_name(VolumeStatus::State state) {
  switch (state) {
    case VolumeStatus::State::open:
      return "open";
    case VolumeStatus::State::closed:
      return "closed";
    case VolumeStatus::State::missing:
      return "missing";
  }
  return "?";
}
}  // namespace

LocalStore::LocalStore(LocalStoreOptions options, IoThreads& io, Clock& clock, Random& random,
                       BufferPool& buffers)
    : options_(std::move(options)), io_(io), clock_(clock), random_(random), buffers_(buffers) {}

LocalStore::~LocalStore() {
  for (auto& slot : slots_) {
    if (slot.volume) slot.volume->close();
  }
}

Result<std::unique_ptr<LocalStore>> LocalStore::open(LocalStoreOptions options, IoThreads& io,
                                                     Clock& clock, Random& random,
                                                     BufferPool& buffers) {
  std::unique_ptr<LocalStore> store(new LocalStore(std::move(options), io, clock, random, buffers));
  TRY(format, store->wants_format());
  if (format) CHECK_OK(store->format());
  std::vector<Found> found;
  for (const auto& path : store->volume_paths()) {
    found.push_back(store->open_volume(path));
    const auto code = found.back().error.code;
    // A newer format or a second process is no lost disk: starting without it would harm.
    if (found.back().volume) continue;
    if (code == Errc::busy) return fail(code, path + " is in use by another process");
    if (code == Errc::invalid) return fail(code, path + ": " + found.back().error.context);
  }
  CHECK_OK(store->choose_map(found));
  store->fill_slots(std::move(found));
  store->refuse_old_copies();
  CHECK_OK(store->agree_epochs());
  store->warn_of_shared_devices();
  return store;
}

std::vector<std::string> LocalStore::volume_paths() const {
  if (options_.directories.size() > 1) return options_.directories;
  // The volumes that are there, and those that a fresh store would have.
  const std::string& base = options_.directories.front();
  std::set<unsigned> numbers;
  for (unsigned i = 0; i < options_.volumes; ++i) numbers.insert(i);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    const std::string name = entry.path().filename();
    if (name.size() < 2 || name.size() > 4 || name[0] != 'v') continue;
    if (name.find_first_not_of("0123456789", 1) != std::string::npos) continue;
    numbers.insert(static_cast<unsigned>(std::stoul(name.substr(1))));
  }
  std::vector<std::string> paths;
  for (const unsigned number : numbers) paths.push_back(base + "/v" + std::to_string(number));
  return paths;
}

// True if no directory holds anything of a cluster, or only a format that was cut off.
Result<bool> LocalStore::wants_format() const {
  const auto paths = volume_paths();
  bool cut_off = false;
  for (const auto& path : paths) {
    if (fs::exists(path + "/formatting")) {
      cut_off = true;
    } else if (fs::exists(path + "/volume.json")) {
      return false;  // formatted; what lacks elsewhere is missing
    }
  }
  if (cut_off) return true;
  const std::string marker = options_.directories.front() + "/cluster";
  if (options_.directories.size() == 1 && fs::exists(marker)) {
    return fail(Errc::corrupt, "\"" + options_.directories.front() +
                                   "\" held a store, but none of its volumes is there. Mount them, "
                                   "or remove the directory to begin anew.");
  }
  return true;
}

Result<> LocalStore::format() {
  const auto paths = volume_paths();
  ClusterMap map;
  std::vector<MapVolume> volumes;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    MapVolume volume;
    volume.id = VolumeId{random_.next()};
    volume.name = "v" + std::to_string(i);
    volume.host = "local";
    volumes.push_back(std::move(volume));
  }
  const auto cluster = random_.id128<ClusterId>();
  TRY(made, make_map(cluster, volumes, kGroups, options_.policy.get()));
  const std::string json = made.to_json();
  std::vector<std::unique_ptr<Disk>> disks;
  for (const auto& path : paths) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return fail(Errc::io, "cannot make \"" + path + "\": " + error.message());
    TRY(disk, make_posix_disk(path));
    disks.push_back(std::move(disk));
  }
  ThreadWorker worker("format", 1);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    log_event(LogLevel::info, "volume_format", {{"volume", volumes[i].name}, {"path", paths[i]}});
    const VolumeIdentity identity{cluster, volumes[i].id};
    CHECK_OK(format_volume(*disks[i], clock_, worker, identity, json));
  }
  if (options_.directories.size() == 1) {
    // From now on an empty directory below this one is a missing volume.
    TRY(base, make_posix_disk(options_.directories.front()));
    TRY(marker, base->open("cluster", OpenMode::write_new));
    const std::string text = hex_name(cluster.high) + hex_name(cluster.low) + "\n";
    CHECK_OK(marker->write_at(0, as_bytes(text)));
    CHECK_OK(marker->sync());
    CHECK_OK(base->sync_directory(""));
  }
  formatted_ = true;
  return Result<>{};
}

LocalStore::Found LocalStore::open_volume(const std::string& path) {
  Found found;
  found.path = path;
  auto disk = make_posix_disk(path);
  if (!disk) {
    found.error = disk.error();
    return found;
  }
  auto make_worker = [](std::string name, unsigned threads) -> std::unique_ptr<Worker> {
    return std::make_unique<ThreadWorker>(std::move(name), threads);
  };
  VolumeParts parts{std::move(*disk), clock_,   random_, buffers_, std::move(make_worker),
                    devices_};
  auto volume = Volume::open(std::move(parts), options_.volume);
  if (!volume) {
    found.error = volume.error();
    return found;
  }
  found.volume = std::move(*volume);
  return found;
}

// The map of the highest epoch that more than half of its volumes hold, by digest.
Result<> LocalStore::choose_map(const std::vector<Found>& found) {
  std::map<std::string, std::size_t> holders;
  std::string reasons;
  for (const auto& volume : found) {
    if (volume.volume) {
      ++holders[volume.volume->get_map()];
    } else {
      reasons += "; " + volume.path + ": " + volume.error.context;
    }
  }
  for (const auto& [json, count] : holders) {
    auto map = ClusterMap::parse(json);
    if (!map || count <= map->volumes.size() / 2) continue;
    if (!map_ || map->epoch > map_->epoch) map_ = std::make_shared<ClusterMap>(std::move(*map));
  }
  if (map_) return Result<>{};
  if (options_.directories.size() == 1 && !fs::exists(options_.directories.front() + "/cluster")) {
    return fail(Errc::corrupt, "the format of \"" + options_.directories.front() +
                                   "\" was cut off before anything was stored: remove the "
                                   "directory and start again");
  }
  return fail(Errc::corrupt,
              "more than half of the volumes must be there and agree on the cluster" + reasons);
}

void LocalStore::refuse(Slot& slot, std::string reason) {
  if (slot.volume) slot.volume->close();
  slot.volume = nullptr;
  slot.refused = refusal(VolumeStatus::State::closed, std::move(reason));
}

void LocalStore::fill_slots(std::vector<Found> found) {
  for (const auto& entry : map_->volumes) {
    Slot slot;
    slot.entry = entry;
    slot.refused = refusal(VolumeStatus::State::missing, "no directory holds it");
    for (auto& volume : found) {
      if (volume.volume && volume.volume->id() == entry.id) {
        slot.path = volume.path;
        if (volume.volume->cluster() == map_->cluster) slot.volume = volume.volume;
      } else if (!volume.volume && options_.directories.size() == 1 &&
                 volume.path == options_.directories.front() + "/" + entry.name) {
        slot.path = volume.path;
        const bool missing = volume.error.code == Errc::not_found;
        slot.refused = refusal(missing ? VolumeStatus::State::missing : VolumeStatus::State::closed,
                               volume.error.context);
      }
    }
    slots_.push_back(std::move(slot));
  }
  for (const auto& volume : found) {
    const bool known = std::any_of(slots_.begin(), slots_.end(),
                                   [&](const Slot& slot) { return slot.path == volume.path; });
    if (known) continue;
    log_event(LogLevel::error, "volume_unknown",
              {{"path", volume.path},
               {"reason", volume.volume ? "it is of another cluster" : volume.error.context}});
  }
}

// R13: peers remember how often a volume was started and whether it failed in this boot; a volume
// that is behind what they saw is an old copy and must come back under a new identity.
void LocalStore::refuse_old_copies() {
  for (auto& slot : slots_) {
    if (!slot.volume) continue;
    for (const auto& peer : slots_) {
      if (!peer.volume || &peer == &slot) continue;
      const auto starts = peer.volume->get_note(starts_note(slot.entry.id));
      if (starts && std::stoull(*starts) >= slot.volume->start_counter()) {
        refuse(slot, "it is an old copy: started " + std::to_string(slot.volume->start_counter()) +
                         " times, but " + peer.entry.name + " saw " + *starts);
        break;
      }
      const auto failed = peer.volume->get_note(failure_note(slot.entry.id));
      if (failed && !options_.boot_id.empty() && *failed == options_.boot_id) {
        refuse(slot, "it failed since the machine was booted; boot again or replace it");
        break;
      }
    }
  }
  for (const auto& slot : slots_) {
    if (!slot.volume) continue;
    for (const auto& peer : slots_) {
      if (!peer.volume || &peer == &slot) continue;
      const auto noted = wait(peer.volume->put_note(starts_note(slot.entry.id),
                                                    std::to_string(slot.volume->start_counter())));
      if (!noted) {
        log_event(LogLevel::warn, "note_failed",
                  {{"volume", peer.entry.name}, {"reason", noted.error().context}});
      }
    }
  }
}

Result<> LocalStore::agree_epochs() {
  for (const auto& slot : slots_) {
    if (!slot.volume) {
      log_event(LogLevel::error, "volume_lost",
                {{"volume", slot.entry.name},
                 {"state", std::string(state_name(slot.refused.state))},
                 {"reason", slot.refused.reason}});
      continue;
    }
    std::vector<GroupEpoch> epochs;
    for (std::uint32_t group = 0; group < map_->groups.size(); ++group) {
      const MapGroup& entry = map_->groups[group];
      epochs.push_back(GroupEpoch{GroupId{group}, entry.epoch, group_digest(entry)});
    }
    const auto set = wait(slot.volume->set_epochs(std::move(epochs)));
    if (!set) return set.error();
  }
  return Result<>{};
}

Result<> LocalStore::wait(Task<> task) {
  std::promise<Result<>> promise;
  auto future = promise.get_future();
  boost::asio::co_spawn(io_.at(0), std::move(task),
                        [&promise](std::exception_ptr error, Result<> result) {
                          if (error) result = fail(Errc::io, "a coroutine threw");
                          promise.set_value(std::move(result));
                        });
  return future.get();
}

void LocalStore::warn_of_shared_devices() const {
  std::map<dev_t, std::string> devices;
  for (const auto& slot : slots_) {
    struct stat status {};
    if (slot.path.empty() || stat(slot.path.c_str(), &status) != 0) continue;
    auto& names = devices[status.st_dev];
    names += (names.empty() ? "" : " ") + slot.entry.name;
  }
  for (const auto& [device, names] : devices) {
    if (names.find(' ') == std::string::npos) continue;
    log_event(LogLevel::warn, "volumes_share_a_device",
              {{"volumes", names}, {"meaning", "they are lost together; give one per disk"}});
  }
}

std::vector<std::shared_ptr<VolumeClient>> LocalStore::clients() const {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const auto& slot : slots_) {
    if (slot.volume) clients.push_back(slot.volume);
  }
  return clients;
}

std::vector<LocalStore::VolumeState> LocalStore::states() const {
  std::vector<VolumeState> states;
  for (const auto& slot : slots_) {
    states.push_back(
        {slot.entry.name, slot.path, slot.volume ? slot.volume->status() : slot.refused});
  }
  return states;
}

bool LocalStore::ready_for_writes() const {
  std::set<VolumeId> open;
  std::size_t roomy = 0;
  for (const auto& slot : slots_) {
    if (!slot.volume) continue;
    const auto status = slot.volume->status();
    if (status.state != VolumeStatus::State::open) continue;
    open.insert(slot.entry.id);
    if (!status.full) ++roomy;
  }
  if (roomy < 1 + std::min(map_->policy.m, 1u)) return false;
  return std::all_of(map_->groups.begin(), map_->groups.end(), [&](const MapGroup& group) {
    const auto alive = std::count_if(group.replicas.begin(), group.replicas.end(),
                                     [&](VolumeId id) { return open.contains(id); });
    return static_cast<std::size_t>(alive) > group.replicas.size() / 2;
  });
}

void LocalStore::watch() {
  for (auto& slot : slots_) {
    if (!slot.volume) continue;
    const auto checked = slot.volume->check_identity();
    const auto status = slot.volume->status();
    if (status.full != std::exchange(slot.was_full, status.full)) {
      log_event(status.full ? LogLevel::warn : LogLevel::info,
                status.full ? "volume_full" : "volume_not_full", {{"volume", slot.entry.name}});
    }
    if (status.state == slot.last_state) continue;
    slot.last_state = status.state;
    log_event(LogLevel::error, "volume_lost",
              {{"volume", slot.entry.name},
               {"state", std::string(state_name(status.state))},
               {"reason", checked ? status.reason : checked.error().context}});
    if (status.state == VolumeStatus::State::closed) note_failure(slot);
  }
}

void LocalStore::note_failure(const Slot& failed) {
  if (options_.boot_id.empty()) return;
  for (const auto& peer : slots_) {
    if (!peer.volume || &peer == &failed) continue;
    const auto noted = wait(peer.volume->put_note(failure_note(failed.entry.id), options_.boot_id));
    if (!noted) {
      log_event(LogLevel::warn, "note_failed",
                {{"volume", peer.entry.name}, {"reason", noted.error().context}});
    }
  }
}

}  // namespace penstock
