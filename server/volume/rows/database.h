// The rows of one volume: its log, and the LevelDB that is filled from it, with our settings and
// our errors.
//
// Durable: write() is one record of the log (log/volume_log.h), synced before LevelDB has it and
// before it succeeds. A row "l applied" in the same batch says which record that was: an open puts
// the records behind the one that LevelDB's tables have into it again, in order; rows are put
// whole, so that twice is as good as once. Rows "lf" and the number of a file of the log say how
// many live bytes it has. The first failed write is final. Never repaired: a
// repair can bring old rows back; a damaged volume re-enters under a new identity instead.
// Want of descriptors or memory, or a full disk: a new log file refuses one batch; LevelDB waits
// until there is some.
// LevelDB knows no exceptions: one that passes through it (no memory) leaves its locks held. After
// that nothing here touches it again, and its destructor leaves it behind: every call answers io.
// Thread-safety: all methods from any thread. All block, but get_now().
#pragma once
#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/limits.h"
#include "penstock/result.h"
#include "server/volume/log/log_witness.h"
#include "server/volume/log/volume_log.h"
#include "server/volume/rows/leveldb_env.h"

namespace leveldb {
class Cache;
class FilterPolicy;
}  // namespace leveldb

namespace penstock {

struct DatabaseOptions {
  std::size_t write_buffer_bytes = 4 * limits::kMiB;  // at most twice this in memory
  std::size_t block_cache_bytes = 1 * limits::kMiB;   // hot rows are in the register cache
  // A table that is open keeps its index and its filter in memory, some 1.5 % of it. LevelDB leaves
  // ten files for others: 118 tables are 3.7 GiB of rows and 56 MiB of memory; beyond that a read
  // may have to open one. A row has some 350 bytes: with blocks of 16 KiB a GET of one of 400,000
  // objects took 47 us in place of 35.
  std::size_t table_bytes = 32 * limits::kMiB;
  std::size_t block_bytes = 4 * limits::kKiB;
  int open_files_max = 128;
  Background background = Background::on_worker;
  bool same_boot = false;  // the machine has run on since the database was last open
  std::uint64_t log_file_bytes_min = VolumeLogOptions{}.file_bytes_min;
  std::function<void()> make_room{};  // as VolumeLogOptions has it
  // With more of the log behind its tables LevelDB is asked to make one: a start reads it all.
  std::uint64_t log_replay_max = 64 * limits::kMiB;
};

class Database {
 public:
  // Makes a new one in the directory `db`. Errors: io, full; invalid - there is one.
  static Result<> create(Disk& disk, Clock& clock, Random& random, Worker& worker,
                         DatabaseOptions options);
  // Errors: not_found; corrupt - a log, the manifest or a table is damaged, lost or of another
  // volume: the volume must not serve from it; io.
  static Result<std::unique_ptr<Database>> open(Disk& disk, Clock& clock, Random& random,
                                                Worker& worker, DatabaseOptions options);
  ~Database();
  // Nothing waits for descriptors or memory any more: what does not get them fails. Before the end.
  void end_patience() { env_.end_patience(); }
  // An orderly end, after which nothing but the destructor may be called: the next open asks for
  // every row that was synced, where after a power cut it cannot know of the last.
  void close();

  // Errors: io - final: every later write fails, too; overloaded, full - nothing was written, for
  // want of descriptors, memory or room.
  Result<> write(leveldb::WriteBatch& batch, bool sync = true);
  // Puts bodies into the record, then the rows that name them into the batch. Called again, with
  // another record, if the first had too little room.
  using Fill = std::function<void(LogRecord& record, leveldb::WriteBatch& batch)>;
  // `bytes`: what it may take in all, at a guess. Errors: as above.
  Result<> write(std::size_t bytes, const Fill& fill, bool sync = true);
  // For bodies.
  VolumeLog& log() { return log_; }
  // Runs `job` where compactions run, unless the database ends before.
  void run_later(std::function<void()> job);
  // nullopt: no such row. Errors: corrupt - the table cannot be read: the row may exist; overloaded
  // - it could not be opened for want of descriptors or memory.
  Result<std::optional<std::string>> get(std::string_view key);
  // The same on an I/O thread: never waits for the disk, even if it hangs. nullopt: ask with get(),
  // since what it needs is not in memory, or not in order, or LevelDB is about to use the disk.
  std::optional<std::optional<std::string>> get_now(std::string_view key);

  // Rows in key order, as of the creation of the cursor. Look at check() after the last row:
  // LevelDB skips blocks that it cannot read.
  class Cursor {
   public:
    ~Cursor();
    void seek(std::string_view key);
    void next();
    bool valid() const { return !failed_ && iterator_->Valid(); }
    std::string_view key() const { return view(iterator_->key()); }
    std::string_view value() const { return view(iterator_->value()); }
    // Errors: corrupt; io.
    Result<> check() const;

   private:
    friend class Database;  // made only there
    Cursor(Database& database, std::unique_ptr<leveldb::Iterator> iterator)
        : database_(database), iterator_(std::move(iterator)) {}
    static std::string_view view(const leveldb::Slice& slice) {
      return {slice.data(), slice.size()};
    }
    Database& database_;
    std::unique_ptr<leveldb::Iterator> iterator_;  // null: failed from the start
    std::optional<Error> failed_;
  };
  std::unique_ptr<Cursor> scan();

 private:
  Database(Disk& disk, Clock& clock, Random& random, Worker& worker, DatabaseOptions options);
  leveldb::Status open_at_disk(bool create);
  void release_background();
  void settle();  // runs inline compaction, if that is how it runs
  Result<> check_usable() const;
  Result<> replay();
  leveldb::Status ask_for_table();
  Result<> flush();
  Result<> load_live_bytes();
  Result<std::uint64_t> append(std::size_t bytes, const Fill& fill, leveldb::WriteBatch& batch,
                               bool sync);
  void add_own_rows(const LogRecord& record, leveldb::WriteBatch& batch) const;
  void flush_if_far_behind();
  Error end_writes(Error error);
  void care_for_log();
  void end_jobs();
  Error break_with(const Error& error);

  const DatabaseOptions options_;
  Disk& disk_;
  LogWitness witness_;
  VolumeLog log_;
  LevelDbEnv env_;
  std::unique_ptr<leveldb::Cache> block_cache_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::DB> db_;       // last: it uses all of the above
  std::mutex write_mutex_;                // held by the one write that runs; guards the next two
  std::vector<std::uint64_t> forgotten_;  // files of the log that are gone; their rows go as well
  std::uint64_t flushed_at_ = 0;          // the floor when LevelDB was asked for a table
  std::mutex mutex_;                      // guards the next one
  std::optional<Error> failed_;
  std::atomic<bool> broken_{false};  // an exception passed through LevelDB
  // Shared with jobs that may begin when this is gone.
  struct Later {
    std::mutex mutex;  // guards the next one; held while a job runs
    bool ended = false;
    std::atomic<bool> upkeep_queued{false};
  };
  const std::shared_ptr<Later> later_ = std::make_shared<Later>();
};

}  // namespace penstock
