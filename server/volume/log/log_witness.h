// Which log files were begun and are still needed, which manifest, and what of them was synced: a
// file of its own, so that one that is lost, cut, of another volume or an older copy is not taken
// for one that never was.
//
//   witness   sealed (sealed_row.h) under the name "witness": u64 marker of the tables, u64 floor,
//             then for each file: u8 kind (1 log file, 2 manifest) | u64 number | u64 marker |
//             u64 frames; behind that, for a log file: u64 number of its first record | u64 bytes
//
// Durable, in this order: a file is made; the witness names it; it gets its first frame. When it is
// no longer needed: the witness drops it; it is removed. With a log file the witness drops older
// manifests, and says how many frames the one in use has: an earlier version would ask for records
// of that file again. So at an open every file is there with at least `frames` frames, and all log
// files but the newest with just as many. `frames` grows only when the witness is written anyway:
// when a file is begun or a log file removed, and at an orderly end.
// Floor: all records below it are in tables of that manifest.
// Thread-safety: all methods from any thread. All block.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "penstock/runtime.h"
#include "server/volume/disk/disk.h"

namespace penstock {

inline constexpr const char* kWitnessFile = "witness";
// Log files and manifests. What is left of kSmallFileBytesMax is for manifests, without which no
// start gets as far as to drop what is not needed.
inline constexpr std::size_t kWitnessedMax = 400'000;

enum class LogKind : std::uint8_t { log_file = 1, manifest = 2 };  // on disk, never renumber

struct LogName {
  LogKind kind = LogKind::log_file;
  std::uint64_t number = 0;
  auto operator<=>(const LogName&) const = default;
};

// How many frames of a file are synced; its writer counts them here.
using SyncedFrames = std::shared_ptr<std::atomic<std::uint64_t>>;

struct WitnessedLog {
  std::uint64_t marker = 0;
  SyncedFrames frames;
  std::uint64_t first = 0;  // of a log file: the number of its first record,
  std::uint64_t bytes = 0;  // and how long the file is
};

class LogWitness {
 public:
  LogWitness(Disk& disk, Random& random) : disk_(disk), random_(random) {}

  // A witness of a new database, which names nothing. Durable. Errors: io; full.
  Result<> create();
  // Errors: corrupt - it is missing or damaged; io.
  Result<> load();
  std::map<LogName, WitnessedLog> logs() const;
  std::optional<WitnessedLog> find(LogName name) const;
  std::uint64_t table_marker() const;

  // The file was made, durably. It is named when this succeeds, under a marker of its own. After a
  // failure the witness may name it or not, so it has to stay, without a frame, until it is begun
  // again or dropped. Errors: io; overloaded, full. A log file also: full - kWitnessedMax files are
  // named already.
  Result<WitnessedLog> begin_manifest(std::uint64_t number);
  Result<WitnessedLog> begin_log_file(std::uint64_t number, std::uint64_t first,
                                      std::uint64_t bytes);
  // The manifest that CURRENT leads to.
  void use_manifest(std::uint64_t number);
  // Nobody needs these log files, nor any manifest that is not in use: they may be removed when
  // this succeeds.
  Result<> drop(const std::vector<std::uint64_t>& log_files);
  // It only rises. Told to the file whenever that is written.
  void set_floor(std::uint64_t number);
  std::uint64_t floor() const;
  // An orderly end: what is synced now must be there at the next open.
  Result<> seal();

 private:
  Result<WitnessedLog> begin(LogName name, WitnessedLog log);
  Result<> write();  // if something changed

  Disk& disk_;
  Random& random_;
  mutable std::mutex mutex_;  // guards all below, and the order of the files written
  std::uint64_t table_marker_ = 0;
  std::uint64_t floor_ = 0;
  std::uint64_t manifest_ = 0;  // in use; 0: not known
  std::map<LogName, WitnessedLog> logs_;
  std::string written_;  // what the file holds; empty: a write of it failed, so nobody knows
};

}  // namespace penstock
