// The files that LevelDB reads and writes through our Env (leveldb_env.h). A `patience` and a
// `left` outlive them.
#pragma once
#include <leveldb/env.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/limits.h"
#include "server/volume/disk/disk.h"
#include "server/volume/log/log_witness.h"

namespace penstock {

// Begins the text of a status that tells of a want of descriptors or memory: no disk has failed.
inline constexpr std::string_view kScarce = "no descriptors or memory: ";

leveldb::Status to_status(const Error& error);
template <class T>
leveldb::Status to_status(const Result<T>& result) {
  return result ? leveldb::Status::OK() : to_status(result.error());
}

// Tries calls again while descriptors or memory are wanting: LevelDB takes a failure for the end of
// all writes. It waits as long as the database is used; the log tells of a long wait.
// Thread-safety: all methods from any thread.
class Patience {
 public:
  explicit Patience(std::string where) : where_(std::move(where)) {}

  // The database is open, and has threads of its own. Before that a minute is enough.
  void make_endless() { endless_.store(true); }
  // From now on nothing waits.
  void end() { ended_.store(true); }

  // Within a compaction; else the first failure is the answer.
  template <class Call>
  auto in_background(Call call) const -> decltype(call()) {
    return background_ ? always(std::move(call)) : call();
  }
  template <class Call>
  auto always(Call call) const -> decltype(call()) {
    auto result = call();
    const auto began = std::chrono::steady_clock::now();
    bool told = false;
    while (!result && result.error().code == Errc::overloaded) {
      if (ended_.load()) return as_io(result.error());
      if (!told && std::chrono::steady_clock::now() - began >= limits::kDatabaseRetry) {
        if (!endless_.load()) return as_io(result.error());
        told = true;
        tell(result.error());
      }
      const timespec pause{0, 50'000'000};
      nanosleep(&pause, nullptr);
      result = call();
    }
    return result;
  }

  // While one lives this thread runs a compaction; `patient`: and may wait.
  class Background {
   public:
    explicit Background(bool patient) { background_ = patient; }
    ~Background() { background_ = false; }
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;
  };

 private:
  static Error as_io(Error error) {
    error.code = Errc::io;
    return error;
  }
  void tell(const Error& error) const;

  static thread_local bool background_;
  const std::string where_;
  std::atomic<bool> endless_{false};
  std::atomic<bool> ended_{false};
};

// Files that LevelDB has let go of, perhaps under its mutex or on an I/O thread: closing one may
// take as long as the disk likes. They stay open until a worker closes them.
// Thread-safety: all methods from any thread.
class LeftFiles {
 public:
  void add(std::unique_ptr<File> file);
  // Blocks.
  void close();

 private:
  std::atomic<bool> some_{false};
  std::mutex mutex_;  // guards files_
  std::vector<std::unique_ptr<File>> files_;
};

// While one lives, this thread reads tables only as far as their bytes are in memory; what would
// need the disk fails, and opens no file.
class ReadAtOnce {
 public:
  ReadAtOnce() { active_ = true; }
  ~ReadAtOnce() { active_ = false; }
  ReadAtOnce(const ReadAtOnce&) = delete;
  ReadAtOnce& operator=(const ReadAtOnce&) = delete;
  static bool active() { return active_; }

 private:
  static thread_local bool active_;
};

std::unique_ptr<leveldb::SequentialFile> make_sequential_file(std::unique_ptr<File> file);
std::unique_ptr<leveldb::RandomAccessFile> make_random_access_file(std::unique_ptr<File> file,
                                                                   const Patience& patience,
                                                                   LeftFiles& left);
std::unique_ptr<leveldb::WritableFile> make_writable_file(std::unique_ptr<File> file,
                                                          const Patience& patience,
                                                          LeftFiles& left);

// Keeps nothing: for LevelDB's own logs.
std::unique_ptr<leveldb::WritableFile> make_sink();

// A manifest: each sync makes a frame (log_frames.h) of what was appended since the last one
// and counts it. Nothing is written before a sync: the caller bounds a batch.
std::unique_ptr<leveldb::WritableFile> make_frame_writer(std::unique_ptr<File> file,
                                                         WitnessedLog log, const Patience& patience,
                                                         LeftFiles& left);
// What was appended, out of the frames in the first `whole_bytes` of the file, which are whole.
std::unique_ptr<leveldb::SequentialFile> make_frame_reader(std::unique_ptr<File> file,
                                                           std::uint64_t marker,
                                                           std::uint64_t whole_bytes);

// A table: the sync appends a seal behind it, which LevelDB does not see. With it a table that was
// cut, or belongs to another volume, shows at a start; what it holds has LevelDB's own checksums.
//   "PNSTKTAB" | u64 marker | u64 number | u64 bytes of the table | u32 crc of these 32
std::unique_ptr<leveldb::WritableFile> make_table_writer(std::unique_ptr<File> file,
                                                         std::uint64_t marker, std::uint64_t number,
                                                         const Patience& patience, LeftFiles& left);
// Errors: corrupt - it is not that table, whole; io.
Result<> check_table_seal(File& file, std::uint64_t marker, std::uint64_t number);

}  // namespace penstock
