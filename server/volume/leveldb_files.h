// The files that LevelDB reads and writes through our Env (leveldb_env.h).
#pragma once
#include <leveldb/env.h>
#include <time.h>

#include <chrono>
#include <memory>
#include <string_view>

#include "penstock/limits.h"
#include "server/volume/disk.h"
#include "server/volume/log_witness.h"

namespace penstock {

// Begins the text of a status that tells of a want of descriptors or memory: no disk has failed.
inline constexpr std::string_view kScarce = "no descriptors or memory: ";

leveldb::Status to_status(const Error& error);
template <class T>
leveldb::Status to_status(const Result<T>& result) {
  return result ? leveldb::Status::OK() : to_status(result.error());
}

// Tries again while descriptors or memory are wanting, for a bounded time: a failure of these calls
// would end all writes of the database. At the end it is one.
template <class Call>
auto patiently(bool patient, Call call) -> decltype(call()) {
  auto result = call();
  const auto until = std::chrono::steady_clock::now() + limits::kDatabaseRetry;
  while (patient && !result && result.error().code == Errc::overloaded) {
    if (std::chrono::steady_clock::now() >= until) {
      return fail(Errc::io, result.error().context);
    }
    const timespec pause{0, 50'000'000};
    nanosleep(&pause, nullptr);
    result = call();
  }
  return result;
}

std::unique_ptr<leveldb::SequentialFile> make_sequential_file(std::unique_ptr<File> file);
std::unique_ptr<leveldb::RandomAccessFile> make_random_access_file(std::unique_ptr<File> file);
std::unique_ptr<leveldb::WritableFile> make_writable_file(std::unique_ptr<File> file);

// A log or manifest: each sync makes a frame (log_frames.h) of what was appended since the last one
// and counts it. Nothing is written before a sync: a batch is bounded by who appends it.
std::unique_ptr<leveldb::WritableFile> make_frame_writer(std::unique_ptr<File> file,
                                                         WitnessedLog log);
// What was appended, out of the frames in the first `whole_bytes` of the file, which are whole.
std::unique_ptr<leveldb::SequentialFile> make_frame_reader(std::unique_ptr<File> file,
                                                           std::uint64_t marker,
                                                           std::uint64_t whole_bytes);

// A table: the sync appends a seal behind it, which LevelDB does not see. With it a table that was
// cut, or belongs to another volume, shows at a start; what it holds has LevelDB's own checksums.
//   "PNSTKTAB" | u64 marker | u64 number | u64 bytes of the table | u32 crc of these 32
std::unique_ptr<leveldb::WritableFile> make_table_writer(std::unique_ptr<File> file,
                                                         std::uint64_t marker,
                                                         std::uint64_t number);
// Errors: corrupt - it is not that table, whole; io.
Result<> check_table_seal(File& file, std::uint64_t marker, std::uint64_t number);

}  // namespace penstock
