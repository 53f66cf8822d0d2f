#include "server/volume/rows/database.h"

#include <leveldb/cache.h>
#include <leveldb/filter_policy.h>

#include "penstock/assert.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "server/volume/rows/leveldb_checksum.h"

namespace penstock {
namespace {

constexpr const char* kDatabaseDirectory = "db";
constexpr int kBloomBitsPerKey = 10;  // 1 % false positives: reads of absent keys stay in memory

Error to_error(const leveldb::Status& status, const Disk& disk) {
  Errc code = Errc::io;
  if (status.IsCorruption()) code = Errc::corrupt;
  if (status.IsNotFound()) code = Errc::not_found;
  if (status.IsInvalidArgument()) code = Errc::invalid;
  if (LevelDbEnv::is_scarce(status)) code = Errc::overloaded;
  return fail(code, "database of " + disk.path("") + ": " + status.ToString());
}

// No less than a memtable allocates for a batch: for each row its bytes with their lengths and
// sequence number, and a node of a skip list; small ones out of blocks of which a quarter may stay
// unused.
class MemtableBytes final : public leveldb::WriteBatch::Handler {
 public:
  void Put(const leveldb::Slice& key, const leveldb::Slice& value) override {
    add(key.size() + value.size());
  }
  void Delete(const leveldb::Slice& key) override { add(key.size()); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint64_t kRowOverhead = 8 + 2 * 5;
  static constexpr std::uint64_t kNode = 13 * 8 + 8;  // at its tallest
  static constexpr std::uint64_t kOwnBlock = 1024;    // larger ones get a block of their own

  void add(std::uint64_t row) {
    row += kRowOverhead;
    bytes_ += row > kOwnBlock ? row + 8 : row + row / 3 + 8;
    bytes_ += kNode + kNode / 3;
  }
  std::uint64_t bytes_ = 0;
};
constexpr std::uint64_t kEmptyMemtable = 8192;  // the head of its list, and a block that is begun

}  // namespace

Database::Database(Disk& disk, Clock& clock, Random& random, Worker& worker,
                   DatabaseOptions options)
    : options_(options),
      disk_(disk),
      env_(disk, clock, random, worker, options.background, options.same_boot),
      block_cache_(leveldb::NewLRUCache(options.block_cache_bytes)),
      filter_(leveldb::NewBloomFilterPolicy(kBloomBitsPerKey)) {}

Database::~Database() {
  env_.end_patience();
  if (check_usable()) {
    settle();
    db_.reset();
    return;
  }
  // What it points to goes away, but no call will be made that could follow.
  [[maybe_unused]] auto* left_behind = db_.release();
}

Result<> Database::check_usable() const {
  if (!broken_.load() && !env_.is_broken()) return {};
  Error ended = fail(Errc::io, "database of " + disk_.path("") + ": ended by an exception");
  ended.thrown = true;  // the disk has not failed, whoever comes first with this
  return ended;
}

Error Database::break_with(const Error& error) {
  broken_.store(true);
  std::lock_guard lock(mutex_);
  if (!failed_) failed_ = error;
  return error;
}

leveldb::Status Database::open_at_disk(bool create) {
  leveldb::Options settings;
  settings.env = &env_;
  settings.info_log = env_.logger();
  settings.create_if_missing = create;
  settings.error_if_exists = create;
  settings.paranoid_checks = true;  // compaction verifies what it reads; the Env checks logs
  settings.reuse_logs = false;      // a log is appended to only by the process that began it
  settings.compression = leveldb::kNoCompression;  // records are small and mostly random ids
  settings.filter_policy = filter_.get();
  settings.block_cache = block_cache_.get();
  settings.write_buffer_size = options_.write_buffer_bytes;
  settings.max_file_size = options_.table_bytes;
  settings.block_size = options_.block_bytes;
  settings.max_open_files = options_.open_files_max;
  leveldb::DB* db = nullptr;
  const leveldb::Status status = leveldb::DB::Open(settings, kDatabaseDirectory, &db);
  db_.reset(db);
  PENSTOCK_ASSERT(!status.ok() || is_leveldb_checksum_ours());  // else: how was this linked?
  return status;
}

// LevelDB may wait for a job that is still held back.
void Database::release_background() {
  env_.release_background();
  settle();
}

void Database::close() {
  env_.end_patience();
  settle();
  db_.reset();
  const auto sealed = env_.seal();
  if (!sealed) {
    log_event(LogLevel::warn, "database_not_sealed",
              {{"volume", disk_.path("")}, {"reason", sealed.error().context}});
  }
}

Result<> Database::create(Disk& disk, Clock& clock, Random& random, Worker& worker,
                          DatabaseOptions options) {
  Database database(disk, clock, random, worker, options);
  CHECK_OK(database.env_.create());
  const leveldb::Status status = database.open_at_disk(true);
  database.release_background();
  if (!status.ok()) return to_error(status, disk);
  return {};
}

Result<std::unique_ptr<Database>> Database::open(Disk& disk, Clock& clock, Random& random,
                                                 Worker& worker, DatabaseOptions options) {
  std::unique_ptr<Database> database(new Database(disk, clock, random, worker, options));
  CHECK_OK(database->env_.load(kDatabaseDirectory));
  const leveldb::Status status = database->open_at_disk(false);
  const auto confirmed = status.ok() ? database->env_.confirm(kDatabaseDirectory) : Result<>();
  database->release_background();
  if (!confirmed) return confirmed.error();
  if (!status.ok()) {
    Error error = to_error(status, disk);
    // Whatever is missing or makes no sense in a database that was there: it is damaged.
    if (error.code != Errc::io && error.code != Errc::overloaded) error.code = Errc::corrupt;
    return error;
  }
  return database;
}

// LevelDB begins a new log when the memtable is larger than its bound before this batch.
bool Database::may_begin_log(const leveldb::WriteBatch& batch) {
  MemtableBytes added;
  [[maybe_unused]] const leveldb::Status walked = batch.Iterate(&added);
  std::lock_guard lock(mutex_);
  const std::uint64_t log = env_.logs_begun();
  if (std::exchange(memtable_log_, log) != log) memtable_bytes_max_ = kEmptyMemtable;
  const bool full = memtable_bytes_max_ > options_.write_buffer_bytes;
  memtable_bytes_max_ += added.bytes();
  return full;
}

leveldb::Status Database::write_gated(leveldb::WriteBatch& batch, bool sync) {
  leveldb::WriteOptions synced;
  synced.sync = sync;
  std::optional<ReadGate::Closing> closing;
  if (may_begin_log(batch)) closing.emplace(env_.gate());
  const std::uint64_t logs = env_.logs_begun();
  const leveldb::Status status = db_->Write(synced, &batch);
  if (env_.logs_begun() != logs) may_begin_log(batch);  // it went into the new memtable
  return status;
}

Result<> Database::write(leveldb::WriteBatch& batch, bool sync) {
  {
    std::lock_guard lock(mutex_);
    if (failed_) return *failed_;
  }
  CHECK_OK(check_usable());
  leveldb::Status status;
  bool refused = false;
  try {
    const std::uint64_t before = env_.files_refused();
    status = write_gated(batch, sync);
    env_.close_left_files();
    refused = env_.files_refused() != before;
    settle();
  } catch (...) {
    return break_with(error_of_exception("a write of a database"));
  }
  if (status.ok()) return {};
  Error error = to_error(status, disk_);
  // No descriptor for a new log: LevelDB has refused the batch before it wrote a byte of it. If no
  // file was asked for, LevelDB tells of an earlier failure, and will for ever.
  if (error.code == Errc::overloaded && refused) return error;
  error.code = Errc::io;
  std::lock_guard lock(mutex_);
  if (!failed_) failed_ = error;
  return *failed_;
}

Result<std::optional<std::string>> Database::get(std::string_view key) {
  leveldb::ReadOptions verified;
  verified.verify_checksums = true;
  CHECK_OK(check_usable());
  std::string value;
  leveldb::Status status;
  try {
    status = db_->Get(verified, {key.data(), key.size()}, &value);
    env_.close_left_files();
    settle();
  } catch (...) {
    return break_with(error_of_exception("a read of a database"));
  }
  if (status.ok()) return std::optional<std::string>(std::move(value));
  if (status.IsNotFound()) return std::optional<std::string>();
  Error error = to_error(status, disk_);
  if (error.code != Errc::overloaded) error.code = Errc::corrupt;
  return error;
}

std::optional<std::optional<std::string>> Database::get_now(std::string_view key) {
  leveldb::ReadOptions verified;
  verified.verify_checksums = true;
  verified.fill_cache = false;  // its blocks come from the page cache; hot rows stay elsewhere
  if (!check_usable()) return std::nullopt;
  std::string value;
  leveldb::Status status;
  try {
    const ReadGate::Pass pass(env_.gate());
    if (!pass) return std::nullopt;
    const ReadAtOnce at_once;
    status = db_->Get(verified, {key.data(), key.size()}, &value);
  } catch (...) {
    break_with(error_of_exception("a read of a database"));
    return std::nullopt;
  }
  settle();
  if (status.ok()) return std::optional<std::string>(std::move(value));
  if (status.IsNotFound()) return std::optional<std::string>();
  return std::nullopt;
}

std::unique_ptr<Database::Cursor> Database::scan() {
  leveldb::ReadOptions verified;
  verified.verify_checksums = true;
  verified.fill_cache = false;  // a long list must not push the hot blocks out
  std::unique_ptr<Cursor> cursor(new Cursor(*this, nullptr));
  if (const auto usable = check_usable(); !usable) {
    cursor->failed_ = usable.error();
    return cursor;
  }
  try {
    const ReadGate::Closing closing(env_.gate());
    cursor->iterator_.reset(db_->NewIterator(verified));
  } catch (...) {
    cursor->failed_ = break_with(error_of_exception("a scan of a database"));
  }
  return cursor;
}

Database::Cursor::~Cursor() {
  if (failed_) {
    [[maybe_unused]] auto* left_behind = iterator_.release();
    return;
  }
  iterator_.reset();
  database_.env_.close_left_files();
  database_.settle();
}

void Database::Cursor::seek(std::string_view key) {
  if (failed_) return;
  try {
    iterator_->Seek({key.data(), key.size()});
  } catch (...) {
    failed_ = database_.break_with(error_of_exception("a scan of a database"));
  }
}

void Database::Cursor::next() {
  try {
    iterator_->Next();
  } catch (...) {
    failed_ = database_.break_with(error_of_exception("a scan of a database"));
  }
}

Result<> Database::Cursor::check() const {
  if (failed_) return *failed_;
  const leveldb::Status status = iterator_->status();
  if (status.ok()) return {};
  Error error = to_error(status, database_.disk_);
  if (error.code != Errc::overloaded) error.code = Errc::corrupt;
  return error;
}

void Database::settle() {
  if (options_.background == Background::inline_) env_.run_background();
}

}  // namespace penstock
