#include "server/node/volume_opener.h"

#include <future>
#include <map>
#include <thread>
#include <utility>

#include "penstock/caught.h"
#include "penstock/log.h"

namespace penstock {
namespace {

std::string stalled_text(const std::string& path, const char* call, Duration age) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  return "stalled: a " + std::string(call) + " of " + path + " has not returned for " +
         std::to_string(seconds) + " s";
}

// One look at a directory, on a thread of its own that nobody waits for.
std::future<void> begin_look(const std::string& path) {
  auto look = std::make_shared<std::promise<void>>();
  auto answer = look->get_future();
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
  return answer;
}

}  // namespace

VolumeOpener::VolumeOpener(VolumeOptions options, Clock& clock, Random& random, BufferPool& buffers)
    : options_(std::move(options)), clock_(clock), random_(random), buffers_(buffers) {
  options_.count_start = CountStart::later;
}

void VolumeOpener::find_hung(const std::vector<std::string>& paths) {
  std::map<std::string, std::future<void>> answers;
  for (const auto& path : paths) {
    if (hung_paths_.contains(path) || answers.contains(path)) continue;
    answers.emplace(path, begin_look(path));
  }
  // Counted in looks, not on a clock: while the process is stopped no disk can answer it.
  const Duration patience = options_.disk_call_max;
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

FoundVolume VolumeOpener::open_here(const std::string& path, std::shared_ptr<DiskWatch> watch) {
  FoundVolume found;
  found.path = path;
  auto opening = std::make_unique<DiskWatch::Call>(*watch, "open");
  auto disk = make_posix_disk(path);
  const auto space = disk ? (*disk)->space() : Result<Disk::Space>(disk.error());
  opening.reset();
  if (!space) {
    found.error = space.error();
    return found;
  }
  VolumeParts parts{
      std::move(*disk), clock_,          random_, buffers_, threads_.of_device(space->device),
      devices_,         std::move(watch)};
  auto volume = Volume::open(std::move(parts), options_);
  if (!volume) {
    found.error = volume.error();
    return found;
  }
  found.volume = std::move(*volume);
  return found;
}

Result<> VolumeOpener::run_watched(const std::string& path, const std::shared_ptr<DiskWatch>& watch,
                                   std::function<void()> job) {
  auto ended = std::make_shared<std::promise<Result<>>>();
  auto answer = ended->get_future();
  std::thread([ended, job = std::move(job)]() mutable {
    Result<> result;
    try {
      job();
    } catch (...) {
      result = error_of_exception("a look at a disk");
    }
    job = nullptr;  // with what it holds: who is told may end all that this stands on
    ended->set_value(std::move(result));
  }).detach();
  while (answer.wait_for(limits::kDiskLook) != std::future_status::ready) {
    const auto oldest = watch->look();
    if (!oldest || oldest->age < options_.disk_call_max) continue;
    watch->close();
    return fail(Errc::unavailable, stalled_text(path, oldest->call, oldest->age));
  }
  return answer.get();
}

Result<> VolumeOpener::run_on_new_disk(const std::string& path, DiskJob job) {
  auto watch = std::make_shared<DiskWatch>(clock_);
  {
    const std::lock_guard lock(mutex_);
    if (const auto last = new_disk_.lock(); last && last->closed()) {
      return fail(Errc::busy,
                  "an earlier call of a new disk's directory has not returned yet: "
                  "repair that disk, or start the store again");
    }
    new_disk_ = watch;
  }
  return run_watched(path, watch, [watch, job = std::move(job)] { job(watch); });
}

FoundVolume VolumeOpener::open(const std::string& path) {
  FoundVolume hung;
  hung.path = path;
  hung.hung = true;
  if (hung_paths_.contains(path)) {
    hung.error = fail(Errc::unavailable, stalled_text(path, "list", options_.disk_call_max));
    return hung;
  }
  auto watch = std::make_shared<DiskWatch>(clock_);
  auto found = std::make_shared<FoundVolume>();
  const auto ended =
      run_watched(path, watch, [this, path, watch, found] { *found = open_here(path, watch); });
  if (ended) return std::move(*found);
  hung.error = ended.error();
  hung.hung = watch->closed();
  if (hung.hung) ++given_up_;
  log_event(LogLevel::error, "volume_closed", {{"volume", path}, {"reason", hung.error.context}});
  return hung;
}

std::size_t VolumeOpener::left_behind() const {
  const std::lock_guard lock(mutex_);
  const auto new_disk = new_disk_.lock();
  return given_up_.load() + (new_disk && new_disk->closed() ? 1 : 0);
}

}  // namespace penstock
