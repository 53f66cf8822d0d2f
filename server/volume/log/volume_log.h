// The log of one volume: what the group commit makes durable, one record a batch, with one sync.
//
// For a LevelDB that is an index, filled from here: it syncs nothing but tables and manifests, and
// after a start the records behind those in its tables are put into it again, in order. Bodies of
// small objects may be read from here, without a copy in it.
//
//   log/00000007.log   a file of zeros, made and synced before its first record; log_walk.h
//   witness            which files there are, how many records each has at least (log_witness.h)
//
// Records have numbers, 1, 2, 3 …, over all files. A file that is full is never written again; it
// is removed when all of its records are in synced tables (`floor`) and no row names a body in it.
// A number is never used twice, so a place that a reader has found is its body, or it is gone.
// Size of a file: a 64th of all, within the bounds of the options; the next is made in advance.
// Live bytes of a file are its bodies that rows name, with these rows: what it takes to move them.
// They are kept in rows of the database, which the same record changes.
//
// Durable: append() is synced when it succeeds. A failed write or sync is final, by the disk.
// Thread-safety: begin(), append() and replay() on one thread at a time; all else from any.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/counted_mutex.h"
#include "penstock/limits.h"
#include "server/volume/disk/disk.h"
#include "server/volume/log/log_record.h"
#include "server/volume/log/log_walk.h"
#include "server/volume/log/log_witness.h"

namespace penstock {

inline constexpr const char* kLogDirectory = "log";

struct VolumeLogOptions {
  std::uint64_t file_bytes_min = 2 * limits::kMiB;
  std::uint64_t file_bytes_max = 256 * limits::kMiB;
  std::size_t handles_max = 256;  // open for reads
  bool same_boot = false;         // the machine has run on since the last record was written
  // Called when the disk has no room for the next file, however small; then that is tried again.
  std::function<void()> make_room{};
};

class VolumeLog {
 public:
  VolumeLog(Disk& disk, LogWitness& witness, VolumeLogOptions options);

  // ---- opening, in this order
  // A new one, without a file. Durable. Errors: io; full.
  Result<> create();
  // Are the files those of the witness, with all that it counts? Ends what was cut off, and makes
  // durable what is there. Errors: corrupt; io.
  Result<> open();
  // Visits the records behind `applied`, the last one that the database has in its tables.
  // Errors: corrupt - some of them are missing; io; those of `visit`.
  using VisitRecord = std::function<Result<>(std::uint64_t number, std::string_view payload)>;
  Result<> replay(std::uint64_t applied, const VisitRecord& visit);
  // How many live bytes a file has, as the database says. One that is not there: false.
  bool set_live(std::uint64_t file, std::uint64_t bytes);

  // The number of the next record. Of the group commit, or before it begins.
  std::uint64_t next() const { return next_; }

  // ---- the group commit
  // A record with room for `bytes` of bodies and changes. May make a file. Errors: overloaded,
  // full - nothing was done; io.
  Result<LogRecord> begin(std::size_t bytes);
  // What file would have how many live bytes with this record.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live_with(const LogRecord& record) const;
  // Files that were removed since the last call, whose counts the database can forget.
  std::vector<std::uint64_t> take_removed();
  // Errors: io - final.
  Result<> append(LogRecord record, std::string_view changes, bool sync);

  // ---- reads
  // Errors: not_found - the file is gone: the row that named it has changed; corrupt; overloaded.
  Result<std::string> read_body(const BodyPlace& place, const OpId& op_id, std::size_t bytes);
  // The same without waiting for the disk; nullopt: ask read_body().
  std::optional<std::string> read_body_now(const BodyPlace& place, const OpId& op_id,
                                           std::size_t bytes);

  // ---- upkeep
  // Bytes of the full files with records that may not be in tables yet.
  std::uint64_t bytes_above_floor() const;
  // All records below `number` are in tables that are synced, with the manifest that names them.
  void set_floor(std::uint64_t number);
  // Is there a file to make or to remove? Cheap.
  bool wants_upkeep() const { return wants_upkeep_.load(std::memory_order_relaxed); }
  // Makes the next file, removes what nobody needs. Blocks; beside commits. What fails for want of
  // room or descriptors is tried again later. Errors: io.
  Result<> upkeep();

  struct Usage {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;       // of all files
    std::uint64_t full_bytes = 0;  // of those that are full
    std::uint64_t live_bytes = 0;  // in those
  };
  Usage usage() const;
  // Files that can be emptied are full and have live bytes, and their records are all in tables.
  // The one with the smallest share of live bytes; nullopt: none, or none below `share`. Never one
  // of `except`.
  std::optional<std::uint64_t> emptiest(double share,
                                        const std::vector<std::uint64_t>& except) const;
  // Are less than `share` of the bytes of all of them live?
  bool is_wasteful(double share) const;
  // Walks a full file from `at` on, for its bodies. `visit` as in walk_log(). `at` is moved behind
  // what was visited without an error. Errors: not_found; corrupt - some of its records are lost;
  // io; those of `visit`.
  Result<> walk(std::uint64_t file, LogPosition& at, const LogVisit& visit);
  // No row names a body in it, as a look at each of them has shown.
  void set_empty(std::uint64_t file);

 private:
  struct LogFile {
    std::uint64_t marker = 0;
    std::uint64_t first = 0;    // number of its first record
    std::uint64_t records = 0;  // of the newest: see next_
    std::uint64_t bytes = 0;
    std::uint64_t live = 0;
    std::shared_ptr<File> handle;  // for reads; may be null
    std::uint64_t read_at = 0;     // when it was used last
  };
  struct Spare {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    std::unique_ptr<File> file;
  };
  static std::string name_of(std::uint64_t file);
  Result<> check_file(std::uint64_t number, const WitnessedLog& log, bool newest);
  Result<> end_newest(std::uint64_t number, const LogEnd& end, File& file);
  Result<> check_strangers();
  std::uint64_t next_file_bytes(std::uint64_t at_least) const;
  bool has_room_for(std::uint64_t bytes) const;
  Result<Spare> make_file(std::uint64_t number, std::uint64_t bytes);
  Result<> rotate(std::uint64_t bytes);
  Result<> make_spare();
  Result<> remove_empty();
  Result<std::shared_ptr<File>> open_handle(std::uint64_t file);
  // What it returns is to be closed without the lock. Pre: mutex_ held.
  std::shared_ptr<File> keep_handle(LogFile& file, std::shared_ptr<File> handle);
  // Pre: mutex_ held.
  bool is_in_tables(const LogFile& file) const { return file.first + file.records <= floor_; }
  bool is_collectable(std::uint64_t number, const LogFile& file) const;
  bool is_removable(std::uint64_t number, const LogFile& file) const;
  bool is_spare_due() const;

  Disk& disk_;
  LogWitness& witness_;
  const VolumeLogOptions options_;
  // Of the group commit alone, once open:
  std::shared_ptr<File> writer_;  // also the handle for reads of the newest file
  std::uint64_t offset_ = 0;      // where the next record begins
  std::uint64_t next_ = 1;        // its number
  SyncedFrames synced_;           // of the newest file
  bool must_rotate_ = false;      // the witness may name a newer file already
  std::atomic<bool> wants_upkeep_{false};
  std::mutex spare_mutex_;  // guards the next; held while a file is made
  std::optional<Spare> spare_;
  // Guards all below; never held during I/O.
  mutable CountedMutex mutex_{LockName::log};
  std::map<std::uint64_t, LogFile> files_;
  std::uint64_t newest_ = 0;
  std::uint64_t newest_used_ = 0;  // bytes
  std::uint64_t floor_ = 0;
  std::uint64_t highest_ = 0;  // number of any file, a spare too
  bool has_spare_ = false;
  std::uint64_t handles_ = 0;
  std::uint64_t reads_ = 0;
  std::vector<std::uint64_t> removed_;
};

}  // namespace penstock
