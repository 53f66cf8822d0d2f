// What goes wrong with volumes while the store runs or starts: directories that go away, disks that
// hang.
#include <condition_variable>
#include <future>

#include "penstock/caught.h"
#include "penstock/log.h"
#include "server/node/local_store.h"
#include "server/node/volume_notes.h"

namespace penstock {
namespace {

constexpr std::chrono::seconds kLockPatience{3};  // for a process that is just ending

std::string stalled_text(const std::string& path, const char* call, Duration age) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  return "stalled: a " + std::string(call) + " of " + path + " has not returned for " +
         std::to_string(seconds) + " s";
}

// Volumes whose threads may be stuck for ever: what those use must stay until the process ends.
void keep_for_ever(std::shared_ptr<Volume> volume) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<Volume>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(volume));
}

}  // namespace

// One volume's check of its directory, on a thread of its own, so that a disk that hangs holds up
// nobody else's.
struct LocalStore::IdentityCheck {
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    bool running = false;
    std::string reason;
  };
  std::shared_ptr<State> state = std::make_shared<State>();
  ThreadWorker worker{"identity", 1};

  // True: it was begun.
  bool begin(const std::shared_ptr<Volume>& volume) {
    {
      const std::lock_guard lock(state->mutex);
      if (std::exchange(state->running, true)) return false;
    }
    worker.submit([volume, shared = state] {
      Result<> checked;
      try {
        checked = volume->check_identity();
      } catch (...) {  // says nothing of the disk; the next look does
        report_exception("a look at a directory");
      }
      const std::lock_guard lock(shared->mutex);
      shared->running = false;
      if (!checked) shared->reason = checked.error().context;
      shared->ended.notify_all();
    });
    return true;
  }
  void wait(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(state->mutex);
    state->ended.wait_until(lock, until, [this] { return !state->running; });
  }
  bool running() {
    const std::lock_guard lock(state->mutex);
    return state->running;
  }
};

void LocalStore::watch() {
  const auto until = std::chrono::steady_clock::now() + limits::kDiskLate;
  std::vector<std::shared_ptr<Slot>> begun;
  for (const auto& slot : slots()) {
    if (!slot->volume) continue;
    if (!slot->check) slot->check = std::make_shared<IdentityCheck>();
    if (slot->check->begin(slot->volume)) begun.push_back(slot);
  }
  for (const auto& slot : begun) slot->check->wait(until);
  for (const auto& slot : slots()) {
    if (!slot->volume) continue;
    const auto status = slot->volume->status();
    if (status.full != std::exchange(slot->was_full, status.full)) {
      log_event(status.full ? LogLevel::warn : LogLevel::info,
                status.full ? "volume_full" : "volume_not_full",
                {{"volume", slot->entry.name},
                 {"path", slot->path},
                 {"meaning", status.full ? "it takes no bodies until more of its disk is free"
                                         : "it takes bodies again"}});
    }
    if (status.state == slot->last_state) continue;
    slot->last_state = status.state;
    log_event(LogLevel::error, "volume_lost",
              {{"volume", slot->entry.name},
               {"state", std::string(state_name(status.state))},
               {"reason", status.reason}});
    // R13 keeps a volume out whose disk failed. All that it acknowledged was synced before it
    // stalled, and an exception ended it as a kill would: the next start takes it back.
    const bool failed = status.state == VolumeStatus::State::closed && !slot->volume->stalled();
    if (failed && !tells_of_exception(status.reason)) note_failure(*slot);
  }
}

void LocalStore::note_failure(const Slot& failed) {
  if (options_.boot_id.empty()) return;
  for (const auto& peer : slots()) {
    if (!peer->volume || peer.get() == &failed) continue;
    const auto noted = wait(peer->volume->put_note(failure_note(failed.entry.id),
                                                   options_.boot_id, note_deadline()));
    if (!noted) {
      log_event(LogLevel::warn, "note_failed",
                {{"volume", peer->entry.name}, {"reason", noted.error().context}});
    }
  }
}

void LocalStore::watch_volume(const std::shared_ptr<Volume>& volume) {
  const std::lock_guard lock(watch_mutex_);
  watched_.push_back(volume);
}

void LocalStore::watch_no_more(const std::shared_ptr<Volume>& volume) {
  const std::lock_guard lock(watch_mutex_);
  std::erase(watched_, volume);
}

// On a thread of its own: should the disk hang, the watch closes the volume and nobody waits.
Result<> LocalStore::count_start(const std::shared_ptr<Volume>& volume) {
  auto counted = std::make_shared<std::promise<Result<>>>();
  auto answer = counted->get_future();
  std::thread([counted, volume] {
    Result<> done;
    try {
      done = volume->count_start();
    } catch (...) {
      done = error_of_exception("the count of a start");
    }
    counted->set_value(std::move(done));
  }).detach();
  while (answer.wait_for(limits::kDiskLook) != std::future_status::ready) {
    if (volume->stalled()) return fail(Errc::unavailable, volume->status().reason);
  }
  return answer.get();
}

void LocalStore::watch_for_stalls() {
  while (!ending_.load()) {
    {
      const std::lock_guard lock(watch_mutex_);
      for (const auto& volume : watched_) {
        try {
          volume->look_for_stall();
        } catch (...) {
          report_exception("a look at the calls of a disk");
        }
      }
    }
    std::this_thread::sleep_for(limits::kDiskLook);
  }
}

std::size_t LocalStore::stalled() const {
  std::size_t count = given_up_.load();
  const std::lock_guard lock(mutex_);
  const auto new_disk = new_disk_.lock();
  count += new_disk && new_disk->closed() ? 1 : 0;
  for (const auto& list : {slots_, retired_}) {
    for (const auto& slot : list) count += slot->volume && slot->volume->stalled() ? 1 : 0;
  }
  return count;
}

// One look at each directory, all at once: what does not come back in time is not opened.
void LocalStore::find_hung(const std::vector<std::string>& paths) {
  std::map<std::string, std::future<void>> answers;
  for (const auto& path : paths) {
    if (hung_paths_.contains(path) || answers.contains(path)) continue;
    auto look = std::make_shared<std::promise<void>>();
    answers.emplace(path, look->get_future());
    std::thread([look, path] {
      try {
        if (auto disk = make_posix_disk(path)) {
          if ((*disk)->list("")) (void)(*disk)->stamp(kIdentityFile);
        }
      } catch (...) {  // it has come back, and the open looks again
        report_exception("a look at a directory");
      }
      look->set_value();
    }).detach();
  }
  // Counted in looks, not on a clock: while the process is stopped no disk can answer it.
  const Duration patience = options_.volume.disk_call_max;
  Duration waited{};
  const auto has_come_back = [&waited, patience](const std::future<void>& answer) {
    while (answer.wait_for(waited < patience ? limits::kDiskLook : std::chrono::milliseconds(0)) !=
           std::future_status::ready) {
      if (waited >= patience) return false;
      waited += limits::kDiskLook;
    }
    return true;
  };
  for (const auto& [path, answer] : answers) {
    if (has_come_back(answer)) continue;
    hung_paths_.insert(path);
    ++given_up_;
    log_event(LogLevel::error, "volume_closed",
              {{"volume", path}, {"reason", stalled_text(path, "list", patience)}});
  }
}

Result<> LocalStore::run_watched(const std::string& path,
                                 const std::shared_ptr<DiskWatch>& watch,
                                 std::function<void()> job) {
  auto ended = std::make_shared<std::promise<Result<>>>();
  auto answer = ended->get_future();
  std::thread([ended, job = std::move(job)] {
    Result<> result;
    try {
      job();
    } catch (...) {
      result = error_of_exception("a look at a disk");
    }
    ended->set_value(std::move(result));
  }).detach();
  while (answer.wait_for(limits::kDiskLook) != std::future_status::ready) {
    const auto oldest = watch->look();
    if (!oldest || oldest->age < options_.volume.disk_call_max) continue;
    watch->close();
    return fail(Errc::unavailable, stalled_text(path, oldest->call, oldest->age));
  }
  return answer.get();
}

Result<> LocalStore::on_new_disk(
    const std::string& path, std::function<void(const std::shared_ptr<DiskWatch>& watch)> job) {
  auto watch = std::make_shared<DiskWatch>(clock_);
  {
    const std::lock_guard lock(mutex_);
    if (const auto last = new_disk_.lock(); last && last->closed()) {
      return fail(Errc::busy, "an earlier call of a new disk's directory has not returned yet: "
                              "repair that disk, or start the store again");
    }
    new_disk_ = watch;
  }
  return run_watched(path, watch, [watch, job = std::move(job)] { job(watch); });
}

LocalStore::Found LocalStore::open_watched(const std::string& path) {
  Found hung;
  hung.path = path;
  hung.hung = true;
  if (hung_paths_.contains(path)) {
    const Duration age = options_.volume.disk_call_max;
    hung.error = fail(Errc::unavailable, stalled_text(path, "list", age));
    return hung;
  }
  auto watch = std::make_shared<DiskWatch>(clock_);
  auto found = std::make_shared<Found>();
  const auto ended = run_watched(
      path, watch, [this, path, watch, found] { *found = open_volume(path, watch); });
  if (ended) return std::move(*found);
  hung.error = ended.error();
  hung.hung = watch->closed();
  if (hung.hung) ++given_up_;
  log_event(LogLevel::error, "volume_closed",
            {{"volume", path}, {"reason", hung.error.context}});
  return hung;
}

// A process that is stuck in another disk may hold this volume for hours: the others go on.
LocalStore::Found LocalStore::open_unlocked(const std::string& path) {
  while (true) {
    Found found = open_watched(path);
    if (found.volume || found.error.code != Errc::busy) return found;
    const auto now = std::chrono::steady_clock::now();
    if (!unlocked_by_) unlocked_by_ = now + kLockPatience;
    if (now < *unlocked_by_) {
      std::this_thread::sleep_for(limits::kDiskLook);
      continue;
    }
    found.error.context = path + " is in use by another process: stop it. If it is stuck in a disk "
                          "that hangs, it ends when that disk answers, or with a boot";
    log_event(LogLevel::error, "volume_closed",
              {{"volume", path}, {"reason", found.error.context}});
    return found;
  }
}

std::vector<std::string> LocalStore::answering(std::vector<std::string> paths) const {
  std::set<std::string> hung = hung_paths_;
  for (const auto& volume : states()) {
    if (volume.stalled) hung.insert(volume.path);
  }
  std::erase_if(paths, [&](const auto& path) { return hung.contains(path); });
  return paths;
}

// Side by side: one that hangs does not keep the others from their orderly end.
void LocalStore::close_all() {
  ending_.store(true);
  if (stall_watch_.joinable()) stall_watch_.join();
  std::vector<std::jthread> closers;
  for (const auto& volume : unplaced_) closers.emplace_back([volume] { volume->close(); });
  for (const auto& list : {slots_, retired_}) {
    for (const auto& slot : list) {
      if (slot->check && slot->check->running()) slot->check->worker.abandon();
      if (!slot->volume) continue;
      if (slot->volume->stalled()) keep_for_ever(slot->volume);
      closers.emplace_back([volume = slot->volume] { volume->close(); });
    }
  }
  for (auto& closer : closers) closer.join();
}

}  // namespace penstock
