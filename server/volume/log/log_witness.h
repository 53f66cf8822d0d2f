// Which logs and manifests of a volume were begun, are still needed, and what of them was
// synced: a file of its own, outside of `db/`, so that a log that is lost, cut at its rotation, of
// another volume or an older copy is not taken for one that never was.
//
//   witness   sealed (sealed_row.h) under the name "witness": u64 marker of the tables, then for
//             each file: u8 kind (1 log, 2 manifest, 3 log file) | u64 number | u64 marker |
//             u64 frames; for a log file (volume_log.h) also u64 number of its first record,
//             u64 bytes. Kind 4 is no file: its number is the floor
//
// Durable, in this order: a log or manifest is created; the witness names it; it gets its first
// frame. When it is no longer needed: the witness drops it; it is removed. With a log the witness
// drops older manifests, and says how many frames the one in use has: an earlier version would ask
// for that log again. So at an open every log and the manifest in use are there with at least
// `frames` frames, and a log that is not named was never written to, or is not needed. `frames`
// grows only when the witness is written anyway: at a rotation, when a log is removed, and at an
// orderly end.
// Floor: all records of the volume's log below it are in synced tables. It is told to the file
// whenever that is written.
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

// On disk, never renumber.
enum class LogKind : std::uint8_t { log = 1, manifest = 2, log_file = 3 };

struct LogName {
  LogKind kind = LogKind::log;
  std::uint64_t number = 0;
  auto operator<=>(const LogName&) const = default;
};

// How many frames of a file are synced; its writer counts them here.
using SyncedFrames = std::shared_ptr<std::atomic<std::uint64_t>>;

struct WitnessedLog {
  std::uint64_t marker = 0;
  SyncedFrames frames;
  bool replayed = false;    // of an earlier process
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

  // `name` was created, durably. It is named when this succeeds, under a marker of its own. After a
  // failure the file may name it or not, so it has to stay, empty, until it is begun again or
  // dropped.
  Result<WitnessedLog> begin(LogName name);
  // The same for a log file.
  Result<WitnessedLog> begin_log_file(std::uint64_t number, std::uint64_t first,
                                      std::uint64_t bytes);
  // The manifest that CURRENT leads to.
  void use_manifest(std::uint64_t number);
  // Nobody needs `name`, nor any manifest that is not in use: they may be removed when this
  // succeeds.
  Result<> drop(LogName name);
  Result<> drop_log_files(const std::vector<std::uint64_t>& numbers);
  // It only rises.
  void set_floor(std::uint64_t number);
  std::uint64_t floor() const;
  // The database is open: what an earlier process logged is in its tables, so nobody needs those
  // logs, nor any manifest that is not in use.
  Result<> drop_replayed();
  // An orderly end: what is synced now must be there at the next open.
  Result<> seal();

 private:
  Result<WitnessedLog> begin(LogName name, WitnessedLog log);
  Result<> drop_old();
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
