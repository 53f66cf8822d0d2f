#include "server/volume/rows/leveldb_env.h"

#include <time.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "penstock/limits.h"
#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/volume/log/log_frames.h"

namespace penstock {
namespace {

constexpr std::uint64_t kPageBytes = 4096;  // of the page cache

using leveldb::Slice;
using leveldb::Status;

std::string parent_of(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}
std::string_view leaf_of(std::string_view name) { return name.substr(name.rfind('/') + 1); }

constexpr std::string_view kManifestPrefix = "MANIFEST-";

std::uint64_t number_of(std::string_view leaf) {
  return std::strtoull(std::string(leaf).c_str(), nullptr, 10);
}
std::optional<std::uint64_t> manifest_number_of(std::string_view leaf) {
  if (!leaf.starts_with(kManifestPrefix)) return std::nullopt;
  return number_of(leaf.substr(kManifestPrefix.size()));
}
bool is_sink(std::string_view leaf) { return leaf.ends_with(".log"); }
bool is_table(std::string_view leaf) { return leaf.ends_with(".ldb"); }

class FileLock final : public leveldb::FileLock {
 public:
  explicit FileLock(std::unique_ptr<File> file) : file_(std::move(file)) {}

 private:
  std::unique_ptr<File> file_;
};

class Logger final : public leveldb::Logger {
 public:
  explicit Logger(std::string path) : path_(std::move(path)) {}
  void Logv(const char* format, std::va_list arguments) override {
    if (!log_enabled(LogLevel::debug)) return;
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    log_event(LogLevel::debug, "leveldb", {{"volume", path_}, {"message", line}});
  }

 private:
  std::string path_;
};

}  // namespace

LevelDbEnv::LevelDbEnv(Disk& disk, Clock& clock, LogWitness& witness, Worker& worker,
                       Background background, bool same_boot)
    : disk_(disk),
      clock_(clock),
      worker_(worker),
      background_(background),
      same_boot_(same_boot),
      patience_(disk.path("")),
      logger_(std::make_unique<Logger>(disk.path(""))),
      witness_(witness) {}
// A job has an end of its own behind that of which LevelDB tells; one of ours may not have begun.
LevelDbEnv::~LevelDbEnv() {
  std::unique_lock lock(jobs_->mutex);
  jobs_->gone = true;
  jobs_->ended.wait(lock, [this] { return jobs_->running == 0; });
}

class LevelDbEnv::RunningJob {
 public:
  explicit RunningJob(std::shared_ptr<Jobs> jobs) : jobs_(std::move(jobs)) {
    std::lock_guard lock(jobs_->mutex);
    runs_ = !jobs_->gone;
    if (runs_) ++jobs_->running;
  }
  ~RunningJob() {
    if (!runs_) return;
    std::lock_guard lock(jobs_->mutex);
    --jobs_->running;
    jobs_->ended.notify_all();
  }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;
  // False: the Env is gone.
  explicit operator bool() const { return runs_; }

 private:
  const std::shared_ptr<Jobs> jobs_;
  bool runs_ = false;
};

bool LevelDbEnv::is_scarce(const Status& status) {
  return status.IsIOError() && status.ToString().find(kScarce) != std::string::npos;
}

// What LevelDB does not need it has removed by now, and it has not begun to make new tables.
Result<> LevelDbEnv::confirm(const std::string& directory) {
  TRY(leaves, disk_.list(directory));
  for (const std::string& leaf : leaves) {
    if (!is_table(leaf)) continue;
    const std::string path = directory + "/" + leaf;
    TRY(file, disk_.open(path, OpenMode::read));
    const auto sealed = check_table_seal(*file, witness_.table_marker(), number_of(leaf));
    if (sealed) continue;
    return fail(sealed.error().code, disk_.path(path) + ": " + sealed.error().context);
  }
  return witness_.drop({});  // older manifests
}

// How much of it is whole.
Result<std::uint64_t> LevelDbEnv::check_manifest(const std::string& path, const WitnessedLog& log) {
  const auto refuse = [&](std::string_view why) {
    return fail(Errc::corrupt, disk_.path(path) + " " + std::string(why));
  };
  TRY(file, disk_.open(path, OpenMode::read));
  TRY(tail, read_log_tail(*file, log.marker));
  if (tail.foreign) return refuse("belongs to another volume, or its beginning is damaged");
  if (tail.whole_frames < log.frames->load()) {
    return refuse("ends after " + std::to_string(tail.whole_frames) + " frames of at least " +
                  std::to_string(log.frames->load()));
  }
  if (!tail.torn) return tail.whole_bytes;
  if (tail.frame_after && holds(Rule::log_tail)) return refuse("is damaged before its end");
  // What a process wrote before it was killed is in the page cache, whole or cut between two pages.
  // So this was damaged, and it may have been acknowledged.
  if (same_boot_ && !(tail.cut_short && tail.file_bytes % kPageBytes == 0)) {
    return refuse("is damaged in its last frame");
  }
  log_event(LogLevel::warn, "torn_manifest_dropped",
            {{"file", disk_.path(path)}, {"whole_bytes", std::to_string(tail.whole_bytes)}});
  return tail.whole_bytes;
}

Status LevelDbEnv::NewSequentialFile(const std::string& name, leveldb::SequentialFile** result) {
  *result = nullptr;
  auto file = disk_.open(name, OpenMode::read);
  if (!file) return to_status(file);
  const auto manifest = manifest_number_of(leaf_of(name));
  if (!manifest) {
    *result = make_sequential_file(std::move(file).value()).release();
    return Status::OK();
  }
  const auto log = witness_.find({LogKind::manifest, *manifest});
  if (!log) return Status::Corruption("the witness does not know it", disk_.path(name));
  const auto whole_bytes = check_manifest(name, *log);
  if (!whole_bytes) return to_status(whole_bytes);
  witness_.use_manifest(*manifest);
  *result = make_frame_reader(std::move(file).value(), log->marker, *whole_bytes).release();
  return Status::OK();
}

Status LevelDbEnv::NewRandomAccessFile(const std::string& name,
                                       leveldb::RandomAccessFile** result) {
  *result = nullptr;
  if (ReadAtOnce::active()) return Status::IOError("a worker has to open it", name);
  auto file = patience_.in_background([&] { return disk_.open(name, OpenMode::read); });
  if (!file) return to_status(file);
  *result = make_random_access_file(std::move(file).value(), patience_, left_).release();
  return Status::OK();
}

Status LevelDbEnv::NewWritableFile(const std::string& name, leveldb::WritableFile** result) {
  // LevelDB makes a table without its mutex, and what the job does from here on with it needs no
  // disk.
  if (is_table(leaf_of(name))) job_closing_.reset();
  if (is_sink(leaf_of(name))) {
    std::lock_guard lock(mutex_);
    sinks_[name] = record_.load();
    *result = make_sink().release();
    return Status::OK();
  }
  return make_file(name, result);
}

void LevelDbEnv::begin_logs_with(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  for (auto& [name, first] : sinks_) first = number;
}

void LevelDbEnv::on_tables_synced(std::function<void(std::uint64_t)> listener) {
  tables_synced_ = std::move(listener);
}

Status LevelDbEnv::make_file(const std::string& name, leveldb::WritableFile** result) {
  *result = nullptr;
  auto file = patience_.in_background([&] { return disk_.open(name, OpenMode::write_new); });
  if (!file) return to_status(file);
  remember(name);
  const auto synced =
      patience_.in_background([&] { return disk_.sync_directory(parent_of(name)); });
  if (!synced) return to_status(synced);
  if (const auto manifest = manifest_number_of(leaf_of(name))) {
    auto begun = patience_.in_background([&] { return witness_.begin_manifest(*manifest); });
    if (!begun) return to_status(begun);
    newest_manifest_ = *manifest;
    *result =
        make_frame_writer(std::move(file).value(), std::move(*begun), patience_, left_).release();
  } else if (is_table(leaf_of(name))) {
    *result = make_table_writer(std::move(file).value(), witness_.table_marker(),
                                number_of(leaf_of(name)), patience_, left_)
                  .release();
  } else {
    *result = make_writable_file(std::move(file).value(), patience_, left_).release();
  }
  return Status::OK();
}

bool LevelDbEnv::FileExists(const std::string& name) { return disk_.exists(name); }

void LevelDbEnv::remember(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (const auto at = names_.find(parent_of(name)); at != names_.end()) {
    at->second.emplace(leaf_of(name));
  }
}
void LevelDbEnv::forget(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (const auto at = names_.find(parent_of(name)); at != names_.end()) {
    at->second.erase(std::string(leaf_of(name)));
  }
}

// Once the database is open, LevelDB asks under its mutex. Nobody else makes files there.
Status LevelDbEnv::GetChildren(const std::string& directory, std::vector<std::string>* result) {
  result->clear();
  std::unique_lock lock(mutex_);
  if (held_ || !names_.contains(directory)) {
    lock.unlock();
    auto names = disk_.list(directory);
    if (!names) return to_status(names);
    lock.lock();
    names_[directory] = std::set<std::string>(names->begin(), names->end());
  }
  const auto& names = names_[directory];
  result->assign(names.begin(), names.end());
  for (const auto& [name, first] : sinks_) {
    if (parent_of(name) == directory) result->emplace_back(leaf_of(name));
  }
  return Status::OK();
}

Status LevelDbEnv::RemoveFile(const std::string& name) {
  if (is_sink(leaf_of(name))) return remove_sink(name);
  const auto removed = disk_.remove(name);
  if (removed || removed.error().code == Errc::not_found) forget(name);
  return to_status(removed);
}

bool LevelDbEnv::is_table_due() {
  std::lock_guard lock(mutex_);
  return sinks_.size() > 1;
}

// LevelDB removes a log when the manifest that needs it no more is synced.
Status LevelDbEnv::remove_sink(const std::string& name) {
  std::uint64_t oldest = ~std::uint64_t{0};
  {
    std::lock_guard lock(mutex_);
    sinks_.erase(name);
    for (const auto& [other, first] : sinks_) oldest = std::min(oldest, first);
    if (sinks_.empty()) return Status::OK();
  }
  if (tables_synced_) tables_synced_(oldest);
  return Status::OK();
}

Status LevelDbEnv::CreateDir(const std::string& name) {
  const auto made = disk_.make_directory(name);
  return made ? to_status(disk_.sync_directory(parent_of(name))) : to_status(made);
}

Status LevelDbEnv::RemoveDir(const std::string& name) {
  return Status::NotSupported("directories stay", name);
}

Status LevelDbEnv::GetFileSize(const std::string& name, std::uint64_t* bytes) {
  const auto size = disk_.file_size(name);
  *bytes = size ? size.value() : 0;
  return to_status(size);
}

Status LevelDbEnv::RenameFile(const std::string& from, const std::string& to) {
  auto renamed = patience_.in_background([&] { return disk_.rename(from, to); });
  if (renamed) {
    renamed = patience_.in_background([&] { return disk_.sync_directory(parent_of(to)); });
  }
  if (renamed) {
    forget(from);
    remember(to);
  }
  if (renamed && leaf_of(to) == "CURRENT") witness_.use_manifest(newest_manifest_);
  return to_status(renamed);
}

Status LevelDbEnv::LockFile(const std::string& name, leveldb::FileLock** lock) {
  *lock = nullptr;
  auto file = disk_.lock(name);
  if (!file) return to_status(file);
  *lock = new FileLock(std::move(file).value());
  return Status::OK();
}

Status LevelDbEnv::UnlockFile(leveldb::FileLock* lock) {
  delete static_cast<FileLock*>(lock);
  return Status::OK();
}

void LevelDbEnv::Schedule(void (*function)(void*), void* argument) {
  auto job = [this, jobs = jobs_, function, argument] {
    const RunningJob running_job(jobs);
    if (!running_job) return;
    const Patience::Background running(background_ == Background::on_worker);
    job_closing_.emplace(gate_);
    try {
      function(argument);
    } catch (...) {
      broken_.store(true);  // and the gate may stay closed
      throw;                // the worker tells the volume
    }
    job_closing_.reset();
    left_.close();
  };
  queue(std::move(job));
}

void LevelDbEnv::queue(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (held_ || background_ == Background::inline_) {
      scheduled_.push_back(std::move(job));
      return;
    }
  }
  worker_.submit(std::move(job));
}

void LevelDbEnv::run_later(std::function<void()> job) {
  queue([jobs = jobs_, job = std::move(job)] {
    const RunningJob running_job(jobs);
    if (running_job) job();
  });
}

void LevelDbEnv::release_background() {
  if (background_ == Background::on_worker) patience_.make_endless();
  std::deque<std::function<void()>> jobs;
  {
    std::lock_guard lock(mutex_);
    held_ = false;
    if (background_ == Background::on_worker) jobs.swap(scheduled_);
  }
  for (auto& job : jobs) worker_.submit(std::move(job));
}

// A job that calls into the database leaves what it schedules to whoever runs the job.
void LevelDbEnv::run_background() {
  thread_local const LevelDbEnv* running = nullptr;
  if (running == this) return;
  const auto* before = std::exchange(running, this);
  while (true) {
    std::function<void()> job;
    {
      std::lock_guard lock(mutex_);
      if (scheduled_.empty()) break;
      job = std::move(scheduled_.front());
      scheduled_.pop_front();
    }
    job();
  }
  running = before;
}

void LevelDbEnv::StartThread(void (*function)(void*), void* argument) {
  Schedule(function, argument);
}

Status LevelDbEnv::GetTestDirectory(std::string*) {
  return Status::NotSupported("no test directory");
}

Status LevelDbEnv::NewLogger(const std::string&, leveldb::Logger** result) {
  *result = new Logger(disk_.path(""));
  return Status::OK();
}

std::uint64_t LevelDbEnv::NowMicros() {
  return static_cast<std::uint64_t>(clock_.boot().time_since_epoch().count());
}

// LevelDB slows a writer by a millisecond when compaction falls behind. It is the committer's own
// thread that waits, as it would for the disk; with inline compaction there is nothing to wait for.
void LevelDbEnv::SleepForMicroseconds(int micros) {
  if (background_ == Background::inline_) return;
  const timespec pause{micros / 1'000'000, (micros % 1'000'000) * 1000L};
  nanosleep(&pause, nullptr);
}

}  // namespace penstock
