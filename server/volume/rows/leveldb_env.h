// LevelDB's view of the world, on top of Disk, Clock and Worker: what LevelDB stores passes through
// the same latch, fault injection and simulated disk as everything else.
//
// What differs from LevelDB's own PosixEnv, and why:
// - a new file's name and a rename are made durable at once (LevelDB syncs a directory only with
//   the manifest, so a power cut could lose a log with acknowledged writes);
// - LevelDB's own logs keep nothing: what they are for, the volume's log does (log/volume_log.h).
//   The Env notes which record each of them begins with, and tells when LevelDB lets go of one: all
//   records before the oldest that is left are in synced tables then;
// - the manifest consists of frames (log_frames.h), and a witness outside of `db/` says which one
//   must be there, and how much of it (log_witness.h): it is cut behind its last whole frame after
//   a power cut, or refused. LevelDB sees what is in the frames;
// - tables are sealed (leveldb_files.h);
// - tables are read by pread, never through mmap: a bad sector is an error, not a SIGBUS;
// - compaction runs on a thread of this volume's own, not on one shared by the whole process;
// - I/O threads may read what is in memory: read_gate.h says how none of them comes to wait for the
//   disk. For that the names of files are remembered, and files are closed by workers only;
// - messages go to log_event at level debug.
// The first failed write latches below (make_latching_disk).
#pragma once
#include <leveldb/env.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/runtime.h"
#include "server/volume/disk/disk.h"
#include "server/volume/log/log_witness.h"
#include "server/volume/rows/leveldb_files.h"
#include "server/volume/rows/read_gate.h"

namespace penstock {

// Where compaction runs.
enum class Background : std::uint8_t {
  on_worker,  // on the worker given to the Env
  inline_,    // only inside run_background(): for a simulator with one thread
};

// Thread-safety: as leveldb::Env, all methods from any thread. Must outlive the DB, and the worker
// must outlive both.
class LevelDbEnv final : public leveldb::Env {
 public:
  // `same_boot`: the machine has run on since the manifest was written: only the process ended.
  LevelDbEnv(Disk& disk, Clock& clock, LogWitness& witness, Worker& worker, Background background,
             bool same_boot = false);
  ~LevelDbEnv() override;

  // Behind the open, before anything runs in the background: is every table whole? Errors: corrupt;
  // io; full.
  Result<> confirm(const std::string& directory);
  // Nothing runs in the background before this.
  void release_background();
  // Which record the next write belongs to: a log that LevelDB begins within it begins with that.
  void set_record(std::uint64_t number) { record_.store(number); }
  // The same for a log that was begun within the open.
  void begin_logs_with(std::uint64_t number);
  // Called when LevelDB lets go of a log, with the first record that may not be in its tables yet.
  // Before anything runs in the background.
  void on_tables_synced(std::function<void(std::uint64_t)> listener);
  // Has LevelDB rows that it will put into a table, in a log that is full? To ask for another table
  // would wait for that one.
  bool is_table_due();
  // Runs `job` where compactions run: later, or within the next run_background().
  void run_later(std::function<void()> job);

  // With Background::inline_: runs what was scheduled, until nothing is left. LevelDB schedules
  // with its mutex held, so this is called after each call into the database; then no write ever
  // waits.
  void run_background();
  leveldb::Logger* logger() const { return logger_.get(); }
  ReadGate& gate() { return gate_; }
  // Closes what LevelDB has let go of. Blocks; for workers.
  void close_left_files() { left_.close(); }
  // No call waits for descriptors or memory any more: the database is about to end.
  void end_patience() { patience_.end(); }
  // A background job threw out of LevelDB, which holds its locks for ever then.
  bool is_broken() const { return broken_.load(); }

  // ---- leveldb::Env
  leveldb::Status NewSequentialFile(const std::string& name,
                                    leveldb::SequentialFile** result) override;
  // Did this call fail for want of descriptors or memory? Then the disk has not.
  static bool is_scarce(const leveldb::Status& status);
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** result) override;
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** result) override;
  bool FileExists(const std::string& name) override;
  leveldb::Status GetChildren(const std::string& directory,
                              std::vector<std::string>* result) override;
  leveldb::Status RemoveFile(const std::string& name) override;
  leveldb::Status CreateDir(const std::string& name) override;
  leveldb::Status RemoveDir(const std::string& name) override;
  leveldb::Status GetFileSize(const std::string& name, std::uint64_t* bytes) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override;
  leveldb::Status LockFile(const std::string& name, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  void Schedule(void (*function)(void*), void* argument) override;
  void StartThread(void (*function)(void*), void* argument) override;
  leveldb::Status GetTestDirectory(std::string* path) override;
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** result) override;
  std::uint64_t NowMicros() override;
  void SleepForMicroseconds(int micros) override;

 private:
  Result<std::uint64_t> check_manifest(const std::string& path, const WitnessedLog& log);
  leveldb::Status remove_sink(const std::string& name);
  void queue(std::function<void()> job);
  leveldb::Status make_file(const std::string& name, leveldb::WritableFile** result);
  class RunningJob;
  void remember(const std::string& name);
  void forget(const std::string& name);

  Disk& disk_;
  Clock& clock_;
  Worker& worker_;
  const Background background_;
  const bool same_boot_;
  Patience patience_;
  LeftFiles left_;
  ReadGate gate_;
  std::optional<ReadGate::Closing> job_closing_;  // of the job in the background, in its thread
  std::atomic<std::uint64_t> record_{0};
  std::atomic<bool> broken_{false};
  std::unique_ptr<leveldb::Logger> logger_;
  LogWitness& witness_;
  std::function<void(std::uint64_t)> tables_synced_;
  std::uint64_t newest_manifest_ = 0;  // only while the database is opened
  std::mutex mutex_;                   // guards all below
  bool held_ = true;
  std::map<std::string, std::set<std::string>> names_;  // of files, by directory, once listed
  std::map<std::string, std::uint64_t> sinks_;   // LevelDB's logs: the record each begins with
  std::deque<std::function<void()>> scheduled_;  // while held, or with Background::inline_
  // Shared with jobs that may begin when this is gone.
  struct Jobs {
    std::mutex mutex;  // guards the next two
    bool gone = false;
    unsigned running = 0;
    std::condition_variable ended;
  };
  const std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>();
};

}  // namespace penstock
