#include "server/volume/rows/database.h"

#include <leveldb/cache.h>
#include <leveldb/filter_policy.h>

#include "penstock/assert.h"
#include "penstock/byte_codec.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/volume/disk/sealed_row.h"
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

// The record that a batch is, by its number.
constexpr std::string_view kAppliedKey = "lapplied";

// How many bytes of a file of the log are live, by its number.
constexpr std::string_view kLivePrefix = "lf";

std::string live_key(std::uint64_t file) {
  std::string key(kLivePrefix);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(file >> shift));
  return key;
}
std::optional<std::uint64_t> file_of(std::string_view live_key) {
  live_key.remove_prefix(kLivePrefix.size());
  if (live_key.size() != sizeof(std::uint64_t)) return std::nullopt;
  std::uint64_t file = 0;
  for (const char byte : live_key) file = file << 8 | static_cast<unsigned char>(byte);
  return file;
}

std::string number_row(std::string_view key, std::uint64_t number) {
  std::string payload;
  ByteWriter(payload).number(number);
  return seal_row(key, payload);
}
Result<std::uint64_t> number_of_row(std::string_view key, std::string_view sealed) {
  TRY(payload, unseal_row(key, sealed));
  ByteReader reader(payload);
  const auto number = reader.number<std::uint64_t>();
  if (!reader.ok() || !reader.at_end()) return fail(Errc::corrupt, "a row of the log's numbers");
  return number;
}

// The changes of a batch as a record of the log has them.
class LoggedBatch final : public leveldb::WriteBatch::Handler {
 public:
  explicit LoggedBatch(std::string& out) : out_(out) {}
  void Put(const leveldb::Slice& key, const leveldb::Slice& value) override {
    write_logged_put(out_, {key.data(), key.size()}, {value.data(), value.size()});
  }
  void Delete(const leveldb::Slice& key) override {
    write_logged_removal(out_, {key.data(), key.size()});
  }

 private:
  std::string& out_;
};

VolumeLogOptions log_options(const DatabaseOptions& options) {
  VolumeLogOptions log;
  log.file_bytes_min = options.log_file_bytes_min;
  log.same_boot = options.same_boot;
  log.make_room = options.make_room;
  return log;
}

}  // namespace

Database::Database(Disk& disk, Clock& clock, Random& random, Worker& worker,
                   DatabaseOptions options)
    : options_(options),
      disk_(disk),
      witness_(disk, random),
      log_(disk, witness_, log_options(options)),
      env_(disk, clock, witness_, worker, options.background, options.same_boot),
      block_cache_(leveldb::NewLRUCache(options.block_cache_bytes)),
      filter_(leveldb::NewBloomFilterPolicy(kBloomBitsPerKey)) {
  env_.on_tables_synced([this](std::uint64_t number) { log_.set_floor(number); });
}

Database::~Database() {
  env_.end_patience();
  end_jobs();
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
  settings.paranoid_checks = true;  // compaction verifies what it reads
  settings.reuse_logs = false;      // nor manifests: one is written by the process that began it
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
  end_jobs();
  settle();
  db_.reset();
  const auto sealed = witness_.seal();
  if (!sealed) {
    log_event(LogLevel::warn, "database_not_sealed",
              {{"volume", disk_.path("")}, {"reason", sealed.error().context}});
  }
}

Result<> Database::create(Disk& disk, Clock& clock, Random& random, Worker& worker,
                          DatabaseOptions options) {
  Database database(disk, clock, random, worker, options);
  CHECK_OK(database.witness_.create());
  CHECK_OK(database.log_.create());
  const leveldb::Status status = database.open_at_disk(true);
  database.release_background();
  if (!status.ok()) return to_error(status, disk);
  return {};
}

Result<std::unique_ptr<Database>> Database::open(Disk& disk, Clock& clock, Random& random,
                                                 Worker& worker, DatabaseOptions options) {
  std::unique_ptr<Database> database(new Database(disk, clock, random, worker, options));
  CHECK_OK(database->witness_.load());
  CHECK_OK(database->log_.open());
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
  CHECK_OK(database->replay());
  return database;
}

// What the log has behind the tables. LevelDB's own log of now begins with that.
Result<> Database::replay() {
  TRY(sealed, get(kAppliedKey));
  std::uint64_t applied = 0;
  if (sealed) {
    TRY(number, number_of_row(kAppliedKey, *sealed));
    applied = number;
  }
  env_.begin_logs_with(applied + 1);
  const auto put = [this](std::uint64_t number, std::string_view payload) -> Result<> {
    leveldb::WriteBatch batch;
    CHECK_OK(read_record(payload, [&batch](const LoggedChange& change) -> Result<> {
      const leveldb::Slice key(change.key.data(), change.key.size());
      if (change.removes) {
        batch.Delete(key);
      } else if (holds(Rule::log_replay)) {
        batch.Put(key, {change.value.data(), change.value.size()});
      }
      return {};
    }));
    env_.set_record(number);
    const leveldb::Status status = db_->Write(leveldb::WriteOptions(), &batch);
    settle();
    if (!status.ok()) return to_error(status, disk_);
    return {};
  };
  CHECK_OK(log_.replay(applied, put));
  CHECK_OK(load_live_bytes());
  log_.set_floor(applied + 1);
  if (log_.next() > applied + 1) CHECK_OK(flush());
  care_for_log();
  // A merge that failed meanwhile is told by the next write: now it is a reason to stay out.
  leveldb::WriteBatch nothing;
  const leveldb::Status merged = db_->Write(leveldb::WriteOptions(), &nothing);
  if (!merged.ok()) return to_error(merged, disk_);
  return {};
}

// Of what LevelDB has in memory, in the background. A write of nothing is LevelDB's own way to ask.
leveldb::Status Database::ask_for_table() {
  env_.set_record(log_.next());
  return db_->Write(leveldb::WriteOptions(), nullptr);
}

// The same, and waits: a start after the next has less to replay.
Result<> Database::flush() {
  leveldb::Status status;
  if (options_.background == Background::inline_) {
    status = ask_for_table();
    settle();
  } else {
    env_.set_record(log_.next());
    const leveldb::Slice nothing;
    db_->CompactRange(&nothing, &nothing);  // of no rows, but it begins with that
  }
  if (!status.ok()) return to_error(status, disk_);
  return {};
}

// A file that is gone was removed before its row was.
Result<> Database::load_live_bytes() {
  const auto cursor = scan();
  for (cursor->seek(kLivePrefix); cursor->valid(); cursor->next()) {
    if (!cursor->key().starts_with(kLivePrefix)) break;
    const auto file = file_of(cursor->key());
    if (!file) return fail(Errc::corrupt, "a row of the log's files has another key");
    TRY(live, number_of_row(cursor->key(), cursor->value()));
    if (!log_.set_live(*file, live)) forgotten_.push_back(*file);
  }
  return cursor->check();
}

void Database::run_later(std::function<void()> job) {
  env_.run_later([later = later_, job = std::move(job)] {
    std::lock_guard lock(later->mutex);
    if (!later->ended) job();
  });
  settle();
}

// Files of the log are made and removed where compactions run.
void Database::care_for_log() {
  if (!log_.wants_upkeep() || later_->upkeep_queued.exchange(true)) return;
  run_later([this] {
    later_->upkeep_queued = false;
    // A failure of the disk is told by the latch below.
    [[maybe_unused]] const auto done = log_.upkeep();
  });
}

void Database::end_jobs() {
  std::lock_guard lock(later_->mutex);
  later_->ended = true;
}

// One table at a time is asked for.
void Database::flush_if_far_behind() {
  const std::uint64_t floor = witness_.floor();
  if (flushed_at_ == floor || log_.bytes_above_floor() < options_.log_replay_max) return;
  if (env_.is_table_due()) return;
  flushed_at_ = floor;
  // What hinders it hinders the next write, too.
  [[maybe_unused]] const leveldb::Status asked = ask_for_table();
}

void Database::add_own_rows(const LogRecord& record, leveldb::WriteBatch& batch) const {
  for (const std::uint64_t file : forgotten_) batch.Delete(live_key(file));
  for (const auto& [file, live] : log_.live_with(record)) {
    const std::string key = live_key(file);
    batch.Put(key, number_row(key, live));
  }
  batch.Put({kAppliedKey.data(), kAppliedKey.size()}, number_row(kAppliedKey, record.number()));
}

Result<std::uint64_t> Database::append(std::size_t bytes, const Fill& fill,
                                       leveldb::WriteBatch& batch, bool sync) {
  for (const std::uint64_t file : log_.take_removed()) forgotten_.push_back(file);
  while (true) {
    TRY(record, log_.begin(bytes));
    batch.Clear();
    fill(record, batch);
    add_own_rows(record, batch);
    std::string changes;
    LoggedBatch logged(changes);
    [[maybe_unused]] const leveldb::Status walked = batch.Iterate(&logged);
    const std::size_t needed = record.bytes() + changes.size();
    if (needed > bytes) {
      bytes = needed;
      continue;
    }
    const std::uint64_t number = record.number();
    // Half of it may be written: whatever failed, there is no second chance.
    const auto appended = log_.append(std::move(record), changes, sync);
    if (!appended) return fail(Errc::io, appended.error().context);
    forgotten_.clear();
    return number;
  }
}

Error Database::end_writes(Error error) {
  error.code = Errc::io;
  std::lock_guard lock(mutex_);
  if (!failed_) failed_ = std::move(error);
  return *failed_;
}

Result<> Database::write(leveldb::WriteBatch& batch, bool sync) {
  const auto copy = [&batch](LogRecord&, leveldb::WriteBatch& out) { out.Append(batch); };
  return write(2 * batch.ApproximateSize(), copy, sync);
}

Result<> Database::write(std::size_t bytes, const Fill& fill, bool sync) {
  {
    std::lock_guard lock(mutex_);
    if (failed_) return *failed_;
  }
  CHECK_OK(check_usable());
  leveldb::Status status;
  try {
    const std::lock_guard lock(write_mutex_);  // LevelDB has batches in the order of the log
    leveldb::WriteBatch batch;
    const auto number = append(bytes, fill, batch, sync);
    if (!number) {
      const Errc code = number.error().code;
      const bool nothing_done = code == Errc::overloaded || code == Errc::full;
      return nothing_done ? number.error() : end_writes(number.error());
    }
    env_.set_record(*number);
    status = db_->Write(leveldb::WriteOptions(), &batch);
    flush_if_far_behind();
    env_.close_left_files();
    settle();
    care_for_log();
  } catch (...) {
    return break_with(error_of_exception("a write of a database"));
  }
  if (status.ok()) return {};
  return end_writes(to_error(status, disk_));
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
