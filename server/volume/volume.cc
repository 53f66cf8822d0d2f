#include "server/volume/volume.h"

#include "penstock/log.h"
#include "penstock/planted.h"

namespace penstock {

Volume::Volume(Clock& clock, Random& random, BufferPool& buffers, VolumeOptions options)
    : clock_(clock),
      random_(random),
      buffers_(buffers),
      options_(std::move(options)),
      health_(std::make_shared<VolumeHealth>()) {}

// The layers, from above: latch (the first failure is final), ballast (a full disk is not yet a
// failure), watch (a call may never return), the disk itself.
void Volume::attach_disk(std::unique_ptr<Disk> raw, std::shared_ptr<SharedDevices> devices,
                         std::shared_ptr<DiskWatch> watch) {
  watch_ = watch ? std::move(watch) : std::make_shared<DiskWatch>(clock_);
  auto disk = make_watched_disk(std::move(raw), watch_);
  space_ = std::make_shared<SpaceGuard>(*disk, clock_, options_.space, std::move(devices));
  auto release = [space = space_] { return space->release_ballast(); };
  auto with_ballast = make_ballast_disk(std::move(disk), std::move(release));
  auto on_failure = [health = health_, path = with_ballast->path("")](const Error& error) {
    if (health->close_with(VolumeStatus::State::closed, error)) {
      log_event(LogLevel::error, "volume_closed", {{"volume", path}, {"reason", error.context}});
    }
  };
  disk_ = make_latching_disk(std::move(with_ballast), std::move(on_failure));
}

Result<std::unique_ptr<Volume>> Volume::open(VolumeParts parts, VolumeOptions options) {
  std::unique_ptr<Volume> volume(
      new Volume(parts.clock, parts.random, parts.buffers, std::move(options)));
  volume->attach_disk(std::move(parts.disk), std::move(parts.devices), std::move(parts.watch));
  Disk& disk = *volume->disk_;
  CHECK_OK(disk.check_directory());
  TRY(stamp, disk.stamp(kIdentityFile));
  volume->identity_stamp_ = std::move(stamp);
  TRY(identity, read_identity(disk));
  volume->identity_ = identity;
  TRY(lock, disk.lock("lock"));
  volume->lock_ = std::move(lock);
  CHECK_OK(volume->space_->open());
  TRY(meta, volume->open_database(parts.make_worker));
  CHECK_OK(volume->check_starts(meta));
  CHECK_OK(volume->open_stores(parts.make_worker, meta));
  if (volume->options_.count_start == CountStart::at_open) {
    CHECK_OK(volume->count_start());
  } else if (holds(Rule::admitted_first)) {
    volume->wait_for_admission("its start was not admitted yet");
  }
  volume->kept_->map_hash = penstock::map_hash(meta.map);
  volume->kept_->map = std::make_shared<const std::string>(std::move(meta.map));
  volume->kept_->old_map = std::make_shared<const std::string>(std::move(meta.old_map));
  volume->kept_->notes = std::move(meta.notes);
  return volume;
}

std::unique_ptr<Worker> Volume::guarded_worker(const WorkerFactory& factory, const char* role,
                                               unsigned threads) const {
  auto worker = factory(role, threads);
  // Nobody knows what a job that threw has left half done.
  worker->on_thrown([health = health_, where = path()](const Error& error) {
    if (health->close_with(VolumeStatus::State::closed, error)) {
      log_event(LogLevel::error, "volume_closed", {{"volume", where}, {"reason", error.context}});
    }
  });
  return worker;
}

Result<VolumeMeta> Volume::open_database(const WorkerFactory& make_worker) {
  compaction_worker_ = guarded_worker(make_worker, kCompactionRole, 1);
  const std::string& boot_id = options_.boot_id;
  DatabaseOptions options = options_.database;
  options.same_boot = !boot_id.empty() && read_boot(*disk_) == boot_id;
  options.make_room = [space = space_] { space->release_ballast(); };
  TRY(database, Database::open(*disk_, clock_, random_, *compaction_worker_, options));
  database_ = std::move(database);
  TRY(meta, load_meta(*database_));
  if (VolumeIdentity{meta.cluster, meta.volume} != identity_) {
    return fail(Errc::corrupt, "the database in " + path() + " belongs to another volume");
  }
  if (!boot_id.empty()) CHECK_OK(write_boot(*disk_, boot_id));
  return meta;
}

// The row first, then the file: so the file may be one behind after a crash, but a database behind
// the file has lost what it once synced. A start that finds the file behind makes up for it before
// it counts itself: were it cut off as well, the file would be two behind, like that of a copy.
Result<> Volume::check_starts(const VolumeMeta& meta) {
  auto in_file = read_starts(*disk_);
  if (!in_file) {
    return fail(Errc::corrupt, "start counter of " + path() + ": " + in_file.error().context);
  }
  const bool newest = meta.starts == *in_file || meta.starts == *in_file + 1;
  if (!newest && holds(Rule::start_counter)) {
    return fail(Errc::corrupt, "the database in " + path() + " is at start " +
                                   std::to_string(meta.starts) + ", the volume was at " +
                                   std::to_string(*in_file) +
                                   ": it is a copy or has lost its newest log");
  }
  if (meta.starts != *in_file) CHECK_OK(write_starts(*disk_, meta.starts));
  start_counter_ = meta.starts + 1;
  return {};
}

Result<> Volume::count_start() {
  const RowOp row = starts_row(start_counter_);
  leveldb::WriteBatch batch;
  batch.Put(row.key, *row.value);
  CHECK_OK(database_->write(batch));
  return write_starts(*disk_, start_counter_);
}

Result<> Volume::open_stores(const WorkerFactory& make_worker, const VolumeMeta& meta) {
  RegisterCommit::Hooks hooks;
  hooks.is_full = [this] {
    if (space_->refresh_due()) space_->refresh();
    return space_->full();
  };
  hooks.on_failure = [this](const Error& error) { fail_with(error); };
  registers_ = std::make_unique<RegisterStore>(
      *database_, clock_, random_.next(), meta, guarded_worker(make_worker, "commit", 1),
      guarded_worker(make_worker, "register-read", options_.register_read_threads),
      std::move(hooks), options_.registers);
  health_->listen([this](const Error& why) { registers_->close(why); });
  extents_ = std::make_unique<ExtentTable>(*database_, *registers_);
  fragment_write_worker_ =
      guarded_worker(make_worker, "fragment-write", options_.fragment_write_threads);
  fragment_read_worker_ =
      guarded_worker(make_worker, "fragment-read", options_.fragment_read_threads);
  FragmentStoreParts parts{*disk_,
                           *extents_,
                           clock_,
                           random_,
                           *fragment_write_worker_,
                           *fragment_read_worker_,
                           buffers_,
                           *space_,
                           [health = health_, where = path()](const Error& error) {
                             if (health->close_with(VolumeStatus::State::closed, error)) {
                               log_event(LogLevel::error, "volume_closed",
                                         {{"volume", where}, {"reason", error.context}});
                             }
                           }};
  TRY(store, FragmentStore::open(std::move(parts), options_.fragments));
  fragments_ = std::move(store);
  return health_->check_open();
}

Volume::~Volume() { close(); }

// A worker that was abandoned does not wait for its threads, so nothing that they may use can go.
void Volume::close() {
  health_->stop_listening();
  const Error shut_down = fail(Errc::shutting_down, "shut down");
  const bool orderly = health_->close_with(VolumeStatus::State::closed, shut_down);
  if (stalled()) return leak_parts();
  if (database_) database_->end_patience();
  fragments_.reset();
  fragment_write_worker_.reset();
  fragment_read_worker_.reset();
  if (stalled()) return leak_parts();
  extents_.reset();
  registers_.reset();  // its workers run what was queued
  if (orderly && database_) database_->close();
  database_.reset();
  compaction_worker_.reset();
  lock_.reset();
}

void Volume::leak_parts() {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;  // never destroyed
  const auto keep = [](auto& part) { kept->emplace_back(std::move(part)); };
  std::lock_guard lock(mutex);
  keep(fragments_);
  keep(fragment_write_worker_);
  keep(fragment_read_worker_);
  keep(extents_);
  keep(registers_);
  keep(database_);
  keep(compaction_worker_);
  keep(lock_);
  keep(disk_);
  kept->emplace_back(space_);
}

bool Volume::look_for_stall() {
  const BootTime now = clock_.boot();
  const auto oldest = watch_->look();
  if (stalled() || !registers_ || !fragments_) return oldest.has_value();
  registers_->expire(now);
  fragments_->expire(now);
  if (!oldest || oldest->age < options_.disk_call_max) return oldest.has_value();
  if (!holds(Rule::hung_disk_closed)) return true;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(oldest->age).count();
  const Error why =
      fail(Errc::unavailable, "stalled: a " + std::string(oldest->call) + " of " + path() +
                                  " has not returned for " + std::to_string(seconds) + " s");
  watch_->close();
  fail_with(why);
  fragments_->abandon(why);
  registers_->abandon(why);
  compaction_worker_->abandon();
  return true;
}

void Volume::admit(bool member) {
  {
    std::lock_guard lock(kept_->mutex);
    kept_->member = member;
  }
  health_->serve();
}

void Volume::refuse(const std::string& why) {
  const Error error = fail(Errc::unavailable, why);
  if (!health_->close_with(VolumeStatus::State::closed, error)) return;
  log_event(LogLevel::error, "volume_refused", {{"volume", path()}, {"reason", why}});
}

std::string Volume::path() const { return disk_->path(""); }

void Volume::fail_with(const Error& error) {
  const bool gone = error.code == Errc::not_found;
  const auto state = gone ? VolumeStatus::State::missing : VolumeStatus::State::closed;
  if (health_->close_with(state, error)) {
    log_event(LogLevel::error, gone ? "volume_missing" : "volume_closed",
              {{"volume", path()}, {"reason", error.context}});
  }
}

void Volume::retire() {
  health_->close_with(VolumeStatus::State::closed, fail(Errc::unavailable, "it was replaced"));
}

Result<> Volume::check_identity() {
  CHECK_OK(health_->check_open());
  if (space_->refresh_due()) space_->refresh();
  Result<> checked = disk_->check_directory();
  const auto stamp = disk_->stamp(kIdentityFile);
  const bool same = stamp && !stamp->empty() && *stamp == identity_stamp_;
  if (checked && !same) {
    const auto found = read_identity(*disk_);
    if (!found) {
      checked = found.error();
    } else if (*found != identity_) {
      checked = fail(Errc::not_found, path() + " holds another volume now");
    } else if (stamp) {
      identity_stamp_ = *stamp;
    }
  }
  // A disk that hangs is the watch's matter; want of descriptors says nothing of the disk.
  if (!checked && (checked.error().code == Errc::overloaded || stalled())) return Result<>{};
  if (!checked) fail_with(checked.error());
  return checked;
}

std::string Volume::get_map() const {
  std::lock_guard lock(kept_->mutex);
  return *kept_->map;
}

std::uint64_t Volume::map_hash() const {
  std::lock_guard lock(kept_->mutex);
  return kept_->map_hash;
}

std::string Volume::get_old_map() const {
  std::lock_guard lock(kept_->mutex);
  return *kept_->old_map;
}

std::optional<std::string> Volume::get_note(const std::string& name) const {
  std::lock_guard lock(kept_->mutex);
  const auto found = kept_->notes.find(name);
  return found == kept_->notes.end() ? std::nullopt : std::optional<std::string>(found->second);
}

std::map<std::string, std::string> Volume::notes() const {
  std::lock_guard lock(kept_->mutex);
  return kept_->notes;
}

Task<> Volume::set_epochs(std::vector<GroupEpoch> epochs) {
  CO_CHECK(health_->check_open());
  co_return co_await registers_->set_epochs(std::move(epochs));
}

}  // namespace penstock
