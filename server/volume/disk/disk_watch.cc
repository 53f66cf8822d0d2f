#include "server/volume/disk/disk_watch.h"

#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/assert.h"
#include "penstock/thread_parts.h"

namespace penstock {
namespace {

using WatchPtr = std::shared_ptr<DiskWatch>;  // files outlive their disk

Error hung_disk() { return fail(Errc::unavailable, "the disk does not answer"); }

// Closing a file of a disk that hangs would hang as well: file and descriptor stay until the
// process ends, no more of them than were open then.
void give_up(std::unique_ptr<File> file) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<File>>;  // never destroyed
  std::lock_guard lock(mutex);
  kept->push_back(std::move(file));
}

class WatchedFile final : public File {
 public:
  WatchedFile(std::unique_ptr<File> file, WatchPtr watch)
      : file_(std::move(file)), watch_(std::move(watch)) {}
  ~WatchedFile() override {
    if (watch_->closed()) {
      give_up(std::move(file_));
      return;
    }
    const DiskWatch::Call call(*watch_, "close");
    file_.reset();
  }

  Result<std::size_t> read_at(std::uint64_t offset, MutBytes buffer) override {
    return watched("read", [&] { return file_->read_at(offset, buffer); });
  }
  std::optional<Result<std::size_t>> read_now(std::uint64_t offset, MutBytes buffer) override {
    if (watch_->late() || watch_->closed()) return std::nullopt;
    const DiskWatch::Call call(*watch_, "cached read");
    return file_->read_now(offset, buffer);
  }
  bool pin(PinnedPages& pages, std::uint64_t offset, std::size_t length, bool may_block) override {
    if (watch_->closed() || (!may_block && watch_->late())) return false;
    const DiskWatch::Call call(*watch_, may_block ? "read" : "cached read");
    return file_->pin(pages, offset, length, may_block);
  }
  Result<> write_parts(std::uint64_t offset, std::span<const ConstBytes> parts) override {
    return watched("write", [&] { return file_->write_parts(offset, parts); });
  }
  Result<> sync() override {
    if (watch_->closed()) return hung_disk();
    const DiskWatch::Call call(*watch_, "sync");
    const Result<> synced = file_->sync();
    watch_->syncs().record(call.age());
    return synced;
  }
  Result<> allocate(std::uint64_t offset, std::uint64_t length) override {
    return watched("allocate", [&] { return file_->allocate(offset, length); });
  }
  Result<> truncate(std::uint64_t length) override {
    return watched("truncate", [&] { return file_->truncate(length); });
  }
  Result<std::uint64_t> size() const override {
    return watched("stat", [&] { return file_->size(); });
  }
  int descriptor() const override { return file_->descriptor(); }

 private:
  template <class Function>
  auto watched(const char* name, Function function) const -> decltype(function()) {
    if (watch_->closed()) return hung_disk();
    const DiskWatch::Call call(*watch_, name);
    return function();
  }

  std::unique_ptr<File> file_;
  WatchPtr watch_;
};

class WatchedDisk final : public Disk {
 public:
  WatchedDisk(std::unique_ptr<Disk> disk, WatchPtr watch)
      : disk_(std::move(disk)), watch_(std::move(watch)) {}

  Result<std::unique_ptr<File>> open(const std::string& name, OpenMode mode) override {
    return wrap(watched("open", [&] { return disk_->open(name, mode); }));
  }
  Result<> rename(const std::string& from, const std::string& to) override {
    return watched("rename", [&] { return disk_->rename(from, to); });
  }
  Result<> remove(const std::string& name) override {
    return watched("remove", [&] { return disk_->remove(name); });
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    return watched("list", [&] { return disk_->list(directory); });
  }
  Result<> make_directory(const std::string& name) override {
    return watched("make directory", [&] { return disk_->make_directory(name); });
  }
  Result<> sync_directory(const std::string& name) override {
    if (watch_->closed()) return hung_disk();
    const DiskWatch::Call call(*watch_, "sync directory");
    const Result<> synced = disk_->sync_directory(name);
    watch_->syncs().record(call.age());
    return synced;
  }
  bool exists(const std::string& name) override {
    if (watch_->closed()) return false;
    const DiskWatch::Call call(*watch_, "look up");
    return disk_->exists(name);
  }
  Result<std::uint64_t> file_size(const std::string& name) override {
    return watched("stat", [&] { return disk_->file_size(name); });
  }
  Result<std::unique_ptr<File>> lock(const std::string& name) override {
    return wrap(watched("lock", [&] { return disk_->lock(name); }));
  }
  Result<Space> space() override {
    return watched("space", [&] { return disk_->space(); });
  }
  std::string path(const std::string& name) const override { return disk_->path(name); }
  Result<> check_directory() override {
    return watched("stat", [&] { return disk_->check_directory(); });
  }
  Result<std::string> stamp(const std::string& name) override {
    return watched("stat", [&] { return disk_->stamp(name); });
  }

 private:
  template <class Function>
  auto watched(const char* name, Function function) -> decltype(function()) {
    if (watch_->closed()) return hung_disk();
    const DiskWatch::Call call(*watch_, name);
    return function();
  }
  Result<std::unique_ptr<File>> wrap(Result<std::unique_ptr<File>> opened) {
    if (!opened) return opened;
    return std::unique_ptr<File>(std::make_unique<WatchedFile>(std::move(opened).value(), watch_));
  }

  std::unique_ptr<Disk> disk_;
  WatchPtr watch_;
};

}  // namespace

DiskWatch::Call::Call(DiskWatch& watch, const char* name)
    : watch_(watch), began_at_(std::max<BootTime::rep>(count(watch.clock_), 1)) {
  const std::size_t first = thread_number();  // its own place, as a rule
  for (std::size_t i = 0; i < watch.places_.size(); ++i) {
    Place& place = watch.places_[(first + i) % watch.places_.size()];
    BootTime::rep free = 0;
    if (!place.began.compare_exchange_strong(free, began_at_)) continue;
    place.name.store(name, std::memory_order_relaxed);
    began_ = &place.began;
    return;
  }
}

DiskWatch::Call::~Call() {
  if (began_ != nullptr) began_->store(0, std::memory_order_release);
}

// A call that ended meanwhile has given its place back, or to one that began behind the pause.
void DiskWatch::leave_out_pause(BootTime::rep before, BootTime::rep now) {
  for (Place& place : places_) {
    BootTime::rep began = place.began.load(std::memory_order_acquire);
    if (began == 0) continue;
    const BootTime::rep moved = began <= before ? began + (now - before) : now;
    place.began.compare_exchange_strong(began, moved, std::memory_order_acq_rel);
  }
}

std::optional<DiskWatch::Oldest> DiskWatch::look() {
  const std::lock_guard lock(look_mutex_);
  const BootTime::rep now = count(clock_);
  const BootTime::rep before = std::exchange(looked_, now);
  if (now - before > kPause.count()) leave_out_pause(before, now);
  std::optional<Oldest> oldest;
  for (const Place& place : places_) {
    const BootTime::rep began = place.began.load(std::memory_order_acquire);
    if (began == 0) continue;
    const Duration age(std::max<BootTime::rep>(now - began, 0));
    if (!oldest || age > oldest->age) {
      oldest = Oldest{place.name.load(std::memory_order_relaxed), age};
    }
  }
  late_.store(oldest && oldest->age > Duration(limits::kDiskLate), std::memory_order_relaxed);
  return oldest;
}

std::unique_ptr<Disk> make_watched_disk(std::unique_ptr<Disk> disk,
                                        std::shared_ptr<DiskWatch> watch) {
  PENSTOCK_ASSERT(disk != nullptr && watch != nullptr);
  return std::make_unique<WatchedDisk>(std::move(disk), std::move(watch));
}

}  // namespace penstock
