#include "server/volume/leveldb_env.h"

#include <time.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/volume/log_tail.h"

namespace penstock {
namespace {

constexpr std::uint64_t kPageBytes = 4096;  // of the page cache

using leveldb::Slice;
using leveldb::Status;

Status to_status(const Error& error) {
  if (error.code == Errc::not_found) return Status::NotFound(error.context);
  if (error.code == Errc::corrupt) return Status::Corruption(error.context);
  return Status::IOError(error.context);
}
template <class T>
Status to_status(const Result<T>& result) {
  return result ? Status::OK() : to_status(result.error());
}

std::string parent_of(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}
std::string_view leaf_of(std::string_view name) { return name.substr(name.rfind('/') + 1); }

bool is_log(std::string_view leaf) { return leaf.ends_with(".log"); }
bool is_manifest(std::string_view leaf) { return leaf.starts_with("MANIFEST-"); }
std::uint64_t log_number(std::string_view leaf) {
  return std::strtoull(std::string(leaf).c_str(), nullptr, 10);
}

Status read_into(File& file, std::uint64_t offset, std::size_t bytes, Slice* result,
                 char* scratch) {
  auto got = file.read_at(offset, std::as_writable_bytes(std::span(scratch, bytes)));
  *result = Slice(scratch, got ? got.value() : 0);
  return to_status(got);
}

class SequentialFile final : public leveldb::SequentialFile {
 public:
  SequentialFile(std::unique_ptr<File> file, std::uint64_t readable_bytes)
      : file_(std::move(file)), readable_bytes_(readable_bytes) {}
  Status Read(std::size_t bytes, Slice* result, char* scratch) override {
    const auto left = static_cast<std::size_t>(readable_bytes_ - offset_);
    const Status status = read_into(*file_, offset_, std::min(bytes, left), result, scratch);
    offset_ += result->size();
    return status;
  }
  Status Skip(std::uint64_t bytes) override {
    offset_ += std::min(bytes, readable_bytes_ - offset_);
    return Status::OK();
  }

 private:
  std::unique_ptr<File> file_;
  const std::uint64_t readable_bytes_;
  std::uint64_t offset_ = 0;
};

class RandomAccessFile final : public leveldb::RandomAccessFile {
 public:
  explicit RandomAccessFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  Status Read(std::uint64_t offset, std::size_t bytes, Slice* result,
              char* scratch) const override {
    return read_into(*file_, offset, bytes, result, scratch);
  }

 private:
  std::unique_ptr<File> file_;
};

// Collects appends until a sync, the close or a full buffer. LevelDB also flushes after each piece
// of a log record and each block of a table; but every record is synced before it counts, and so is
// every table, so the bytes may wait for that: one system call instead of many.
class WritableFile final : public leveldb::WritableFile {
 public:
  explicit WritableFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  Status Append(const Slice& data) override {
    pending_.append(data.data(), data.size());
    return pending_.size() < kPendingBytesMax ? Status::OK() : write_pending();
  }
  Status Flush() override { return Status::OK(); }
  Status Sync() override {
    const Status written = write_pending();
    return written.ok() ? to_status(file_->sync()) : written;
  }
  Status Close() override {
    const Status written = write_pending();
    file_.reset();
    return written;
  }

 private:
  Status write_pending() {
    if (pending_.empty()) return Status::OK();
    const auto written = file_->write_at(offset_, as_bytes(pending_));
    offset_ += pending_.size();  // after a failure the disk refuses everything: no second chance
    pending_.clear();
    return to_status(written);
  }

  static constexpr std::size_t kPendingBytesMax = 64 * 1024;
  std::unique_ptr<File> file_;
  std::uint64_t offset_ = 0;
  std::string pending_;
};

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

LevelDbEnv::LevelDbEnv(Disk& disk, Clock& clock, Worker& worker, Background background,
                       bool same_boot)
    : disk_(disk),
      clock_(clock),
      worker_(worker),
      background_(background),
      same_boot_(same_boot),
      logger_(std::make_unique<Logger>(disk.path(""))) {}
LevelDbEnv::~LevelDbEnv() = default;

Status LevelDbEnv::check_log(const std::string& name, File& file, std::uint64_t& readable_bytes) {
  const auto tail = read_log_tail(file);
  if (!tail) return to_status(tail);
  readable_bytes = tail->whole_bytes;
  if (!tail->torn) return Status::OK();
  if (tail->record_after && holds(Rule::log_tail)) {
    return Status::Corruption("damaged before its end", disk_.path(name));
  }
  // What a process wrote before it was killed is in the page cache, whole or cut between two pages.
  // So this was damaged, and it may have been acknowledged.
  if (same_boot_ && tail->file_bytes % kPageBytes != 0) {
    return Status::Corruption("its last record is damaged", disk_.path(name));
  }
  // A later log is begun only when this one was whole, unless no record has reached it yet.
  if (is_log(leaf_of(name))) {
    const std::string directory = parent_of(name);
    const auto names = disk_.list(directory);
    if (!names) return to_status(names);
    for (const std::string& other : names.value()) {
      if (!is_log(other) || log_number(other) <= log_number(leaf_of(name))) continue;
      const auto later = disk_.open(directory + "/" + other, OpenMode::read);
      if (!later) return to_status(later);
      const auto later_tail = read_log_tail(*later.value());
      if (!later_tail) return to_status(later_tail);
      if (later_tail->whole_bytes > 0 || later_tail->record_after) {
        return Status::Corruption("torn although a later log follows", disk_.path(name));
      }
    }
  }
  log_event(LogLevel::warn, "torn_log_tail_dropped",
            {{"file", disk_.path(name)}, {"whole_bytes", std::to_string(readable_bytes)}});
  return Status::OK();
}

Status LevelDbEnv::NewSequentialFile(const std::string& name, leveldb::SequentialFile** result) {
  *result = nullptr;
  auto file = disk_.open(name, OpenMode::read);
  if (!file) return to_status(file);
  const auto size = file.value()->size();
  if (!size) return to_status(size);
  std::uint64_t readable_bytes = size.value();
  if (is_log(leaf_of(name)) || is_manifest(leaf_of(name))) {
    const Status checked = check_log(name, *file.value(), readable_bytes);
    if (!checked.ok()) return checked;
  }
  *result = new SequentialFile(std::move(file).value(), readable_bytes);
  return Status::OK();
}

Status LevelDbEnv::NewRandomAccessFile(const std::string& name,
                                       leveldb::RandomAccessFile** result) {
  *result = nullptr;
  auto file = disk_.open(name, OpenMode::read);
  if (!file) return to_status(file);
  *result = new RandomAccessFile(std::move(file).value());
  return Status::OK();
}

Status LevelDbEnv::NewWritableFile(const std::string& name, leveldb::WritableFile** result) {
  *result = nullptr;
  auto file = disk_.open(name, OpenMode::write_new);
  if (!file) return to_status(file);
  const auto synced = disk_.sync_directory(parent_of(name));
  if (!synced) return to_status(synced);
  *result = new WritableFile(std::move(file).value());
  return Status::OK();
}

bool LevelDbEnv::FileExists(const std::string& name) { return disk_.exists(name); }

Status LevelDbEnv::GetChildren(const std::string& directory, std::vector<std::string>* result) {
  result->clear();
  auto names = disk_.list(directory);
  if (!names) return to_status(names);
  *result = std::move(names).value();
  return Status::OK();
}

Status LevelDbEnv::RemoveFile(const std::string& name) { return to_status(disk_.remove(name)); }

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
  const auto renamed = disk_.rename(from, to);
  return renamed ? to_status(disk_.sync_directory(parent_of(to))) : to_status(renamed);
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
  auto job = [this, function, argument] {
    try {
      function(argument);
    } catch (...) {
      broken_.store(true);
      throw;  // the worker tells the volume
    }
  };
  if (background_ == Background::on_worker) {
    worker_.submit(std::move(job));
    return;
  }
  std::lock_guard lock(mutex_);
  scheduled_.push_back(std::move(job));
}

void LevelDbEnv::run_background() {
  while (true) {
    std::function<void()> job;
    {
      std::lock_guard lock(mutex_);
      if (scheduled_.empty()) return;
      job = std::move(scheduled_.front());
      scheduled_.pop_front();
    }
    job();
  }
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
