#include "server/node/volume_set.h"

#include <algorithm>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include "penstock/log.h"

namespace penstock {
namespace {

// Volumes whose threads may be stuck for ever: what those use must stay until the process ends.
void keep_for_ever(std::shared_ptr<Volume> volume) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<Volume>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(volume));
}

}  // namespace

VolumeSet::VolumeSet(VolumeOpener& opener, StartNotes& notes) : opener_(opener), notes_(notes) {}

VolumeSet::~VolumeSet() {
  if (!closed_) close_all();
}

std::shared_ptr<const ClusterMap> VolumeSet::map() const {
  const std::lock_guard lock(mutex_);
  return map_;
}

VolumeSlots VolumeSet::slots() const {
  const std::lock_guard lock(mutex_);
  return slots_;
}

VolumeSlots VolumeSet::slots_and_retired() const {
  const std::lock_guard lock(mutex_);
  VolumeSlots all = slots_;
  all.insert(all.end(), retired_.begin(), retired_.end());
  return all;
}

std::vector<std::shared_ptr<VolumeClient>> VolumeSet::clients() const {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const auto& slot : slots()) {
    if (slot->volume) clients.push_back(slot->volume);
  }
  return clients;
}

std::shared_ptr<VolumeClient> VolumeSet::client(VolumeId id) const {
  for (const auto& slot : slots()) {
    if (slot->entry.id == id) return slot->volume;
  }
  return nullptr;
}

std::vector<VolumeSet::VolumeState> VolumeSet::states() const {
  std::vector<VolumeState> states;
  for (const auto& slot : slots()) {
    states.push_back({slot->entry.id, slot->entry.name, slot->path,
                      slot->volume ? slot->volume->status() : slot->refused,
                      slot->volume ? slot->volume->stalled() : slot->hung,
                      slot->volume ? slot->volume->damaged_reads() : 0});
  }
  return states;
}

std::vector<std::pair<std::string, LatencyHistogram::Counts>> VolumeSet::sync_counts() const {
  std::vector<std::pair<std::string, LatencyHistogram::Counts>> counts;
  for (const auto& slot : slots()) {
    if (slot->volume) counts.emplace_back(slot->entry.name, slot->volume->sync_counts());
  }
  return counts;
}

std::vector<std::string> VolumeSet::answering(std::vector<std::string> paths) const {
  std::set<std::string> hung = opener_.hung_paths();
  for (const auto& volume : states()) {
    if (volume.stalled) hung.insert(volume.path);
  }
  std::erase_if(paths, [&](const auto& path) { return hung.contains(path); });
  return paths;
}

bool VolumeSet::leaves(const VolumeSlot& slot, const ClusterMap& next) const {
  const MapVolume* before = map_ == nullptr ? nullptr : map_->find(slot.entry.id);
  const bool replaced = before != nullptr && before->successor.value != 0;
  return replaced && next.find(slot.entry.id) == nullptr;
}

bool VolumeSet::is_lost(const VolumeSlot& slot, const ClusterMap& next) const {
  const bool was_named = map_ != nullptr && map_->find(slot.entry.id) != nullptr;
  return was_named && next.find(slot.entry.id) == nullptr && !leaves(slot, next);
}

void VolumeSet::take_map(std::shared_ptr<const ClusterMap> map, SameEpoch other) {
  VolumeSlots leaving, lost;
  {
    const std::lock_guard lock(mutex_);
    if (map_ != nullptr && !takes_place_of(*map, *map_, other)) return;
    for (const auto& slot : slots_) {
      if (leaves(*slot, *map)) leaving.push_back(slot);
      if (is_lost(*slot, *map)) lost.push_back(slot);
    }
    map_ = std::move(map);
    std::erase_if(slots_, [&](const auto& slot) {
      return std::find(leaving.begin(), leaving.end(), slot) != leaving.end();
    });
    retired_.insert(retired_.end(), leaving.begin(), leaving.end());
  }
  for (const auto& slot : lost) {
    log_event(LogLevel::error, "volume_not_in_the_map",
              {{"volume", slot->entry.name},
               {"path", slot->path},
               {"meaning",
                "the map names it no more, though nothing replaced it: do not remove its "
                "directory, it may hold the only copies; look at `penstock ring status`"}});
  }
  for (const auto& slot : leaving) {
    log_event(LogLevel::info, "volume_retired",
              {{"volume", slot->entry.name},
               {"path", slot->path},
               {"meaning", "it was replaced; its directory may be removed after the next start"}});
    if (slot->volume) slot->volume->retire();
  }
}

// ---- watching

void VolumeSet::tell_fullness(VolumeSlot& slot, bool full) const {
  if (full == std::exchange(slot.was_full, full)) return;
  log_event(full ? LogLevel::warn : LogLevel::info, full ? "volume_full" : "volume_not_full",
            {{"volume", slot.entry.name},
             {"path", slot.path},
             {"meaning", full ? "it takes no bodies until more of its disk is free"
                              : "it takes bodies again"}});
}

void VolumeSet::watch(bool at_directories) {
  const auto until = std::chrono::steady_clock::now() + limits::kDiskLate;
  VolumeSlots begun;
  for (const auto& slot : slots()) {
    if (!slot->volume || !at_directories) continue;
    if (!slot->check) slot->check = std::make_shared<IdentityCheck>(looks_);
    if (slot->check->begin(slot->volume)) begun.push_back(slot);
  }
  for (const auto& slot : begun) slot->check->wait(until);
  for (const auto& slot : slots()) {
    if (!slot->volume) continue;
    // Its look may never end, and others want the thread.
    if (slot->check && slot->volume->stalled()) slot->check->abandon();
    const auto status = slot->volume->status();
    tell_fullness(*slot, status.full);
    if (slot->volume->waits_for_admission() || status.state == slot->last_state) continue;
    slot->last_state = status.state;
    tell_lost(slot->entry.name, status);
    // R13 keeps a volume out whose disk failed. A call that hangs, an exception or a full disk
    // ended it as a kill would: the next start takes it back.
    const bool failed = status.state == VolumeStatus::State::closed;
    if (!failed || slot->volume->is_disk_sound()) continue;
    notes_.note_failure(*slot, slots());
    if (on_failure_) on_failure_(slot->entry.id);
  }
}

// ---- by who starts or adds a volume

void VolumeSet::place(std::shared_ptr<const ClusterMap> map, VolumeSlots slots) {
  const std::lock_guard lock(mutex_);
  map_ = std::move(map);
  slots_ = std::move(slots);
}

void VolumeSet::keep_to_close(std::vector<std::shared_ptr<Volume>> unplaced) {
  const std::lock_guard lock(mutex_);
  unplaced_ = std::move(unplaced);
}

void VolumeSet::begin_stall_watch() {
  for (const auto& slot : slots()) {
    if (slot->volume) stall_watch_.add(slot->volume);
  }
  stall_watch_.start();
}

void VolumeSet::admit() {
  begin_stall_watch();
  for (auto& [slot, why] : notes_.admit_all(slots(), map())) refuse(*slot, std::move(why));
}

void VolumeSet::refuse(VolumeSlot& slot, std::string reason) {
  if (slot.volume) {
    stall_watch_.remove(slot.volume);
    slot.volume->close();
  }
  slot.volume = nullptr;
  slot.refused = refusal(VolumeStatus::State::closed, std::move(reason));
}

void VolumeSet::add(std::shared_ptr<VolumeSlot> prepared) {
  const std::lock_guard lock(mutex_);
  slots_.push_back(std::move(prepared));
}

// ---- the end

std::size_t VolumeSet::close(Duration patience) {
  const std::size_t before = left_behind();
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
  if (answer.wait_for(patience) != std::future_status::ready) {
    return before + 1;  // at least: stalled ones are passed over
  }
  closed_ = true;
  return before;
}

std::size_t VolumeSet::left_behind() const {
  std::size_t count = opener_.left_behind();
  for (const auto& slot : slots_and_retired()) {
    count += slot->volume && slot->volume->stalled() ? 1 : 0;
  }
  return count;
}

// Side by side: one that hangs does not keep the others from their orderly end.
void VolumeSet::close_all() {
  stall_watch_.stop();
  std::vector<std::jthread> closers;
  for (const auto& volume : unplaced_) closers.emplace_back([volume] { volume->close(); });
  for (const auto& slot : slots_and_retired()) {
    if (slot->check) slot->check->abandon();
    if (!slot->volume) continue;
    if (slot->volume->stalled()) keep_for_ever(slot->volume);
    closers.emplace_back([volume = slot->volume] { volume->close(); });
  }
  for (auto& closer : closers) closer.join();
}

}  // namespace penstock
