#include <atomic>
#include <mutex>

#include "penstock/assert.h"
#include "penstock/caught.h"
#include "penstock/planted.h"
#include "server/volume/disk/disk.h"

namespace penstock {
namespace {

// Failures of a call that change nothing and promise nothing, and so do not latch.
enum Harmless : unsigned { kNone = 0, kFull = 1, kAbsent = 2, kNothing = 4 };

// What a disk throws is an error of that call.
template <class Call>
auto contained(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    return error_of_exception("a call of a disk");
  }
}

// A sync that failed for want of something is one of the disk all the same: pages may be dropped.
Result<> as_failure(Result<> synced, Errc want) {
  if (synced || synced.error().code != want) return synced;
  Error failed = std::move(synced).error();
  failed.code = Errc::io;
  return failed;
}

// The first failure, shared by the disk and the files it opened (files may outlive the disk).
class Latch {
 public:
  explicit Latch(std::function<void(const Error&)> on_failure)
      : on_failure_(std::move(on_failure)) {}

  Result<> check() const {
    if (!failed_.load(std::memory_order_acquire)) return {};
    return *first_;  // written once, before `failed_`
  }

  void fail_with(const Error& error) {
    {
      std::lock_guard lock(mutex_);
      if (first_ || !holds(Rule::first_failure_final)) return;
      first_ = error;
      failed_.store(true, std::memory_order_release);
    }
    if (on_failure_) on_failure_(error);
  }

  // Makes a changing call unless an earlier one failed.
  template <class Call>
  auto change(Call call, unsigned harmless = kNone) -> decltype(call()) {
    CHECK_OK(check());
    auto result = contained(call);
    if (!result) {
      const Errc code = result.error().code;
      const unsigned kind = code == Errc::full        ? unsigned{kFull}
                            : code == Errc::not_found ? unsigned{kAbsent}
                            : code == Errc::overloaded && holds(Rule::scarce_harmless)
                                ? unsigned{kNothing}
                                : unsigned{kNone};
      if ((kind & (harmless | kNothing)) == 0) fail_with(result.error());
    }
    return result;
  }

 private:
  std::function<void(const Error&)> on_failure_;
  std::mutex mutex_;
  std::optional<Error> first_;
  std::atomic<bool> failed_{false};
};

class LatchingFile final : public File {
 public:
  LatchingFile(std::unique_ptr<File> file, std::shared_ptr<Latch> latch)
      : file_(std::move(file)), latch_(std::move(latch)) {}

  Result<std::size_t> read_at(std::uint64_t offset, MutBytes buffer) override {
    return contained([&] { return file_->read_at(offset, buffer); });
  }
  std::optional<Result<std::size_t>> read_now(std::uint64_t offset, MutBytes buffer) override {
    return contained([&] { return file_->read_now(offset, buffer); });
  }
  bool pin(PinnedPages& pages, std::uint64_t offset, std::size_t length, bool may_block) override {
    return file_->pin(pages, offset, length, may_block);  // which throws nothing
  }
  Result<> write_parts(std::uint64_t offset, std::span<const ConstBytes> parts) override {
    return latch_->change([&] { return file_->write_parts(offset, parts); });
  }
  Result<> sync() override {
    return latch_->change([&]() -> Result<> {
      return as_failure(as_failure(file_->sync(), Errc::full), Errc::overloaded);
    });
  }
  Result<> allocate(std::uint64_t offset, std::uint64_t length) override {
    return latch_->change([&] { return file_->allocate(offset, length); }, kFull);
  }
  Result<> truncate(std::uint64_t length) override {
    return latch_->change([&] { return file_->truncate(length); });
  }
  Result<std::uint64_t> size() const override { return file_->size(); }
  int descriptor() const override { return file_->descriptor(); }

 private:
  std::unique_ptr<File> file_;
  std::shared_ptr<Latch> latch_;
};

class LatchingDisk final : public Disk {
 public:
  LatchingDisk(std::unique_ptr<Disk> disk, std::function<void(const Error&)> on_failure)
      : disk_(std::move(disk)), latch_(std::make_shared<Latch>(std::move(on_failure))) {}

  Result<std::unique_ptr<File>> open(const std::string& name, OpenMode mode) override {
    if (mode == OpenMode::read) {
      return wrap(contained([&] { return disk_->open(name, mode); }));
    }
    const unsigned harmless = mode == OpenMode::direct ? kAbsent : kFull;
    return wrap(latch_->change([&] { return disk_->open(name, mode); }, harmless));
  }
  Result<> rename(const std::string& from, const std::string& to) override {
    return latch_->change([&] { return disk_->rename(from, to); });
  }
  Result<> remove(const std::string& name) override {
    return latch_->change([&] { return disk_->remove(name); }, kAbsent);
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    return contained([&] { return disk_->list(directory); });
  }
  Result<> make_directory(const std::string& name) override {
    return latch_->change([&] { return disk_->make_directory(name); }, kFull);
  }
  Result<> sync_directory(const std::string& name) override {
    // Without a descriptor nothing was begun.
    return latch_->change([&] { return as_failure(disk_->sync_directory(name), Errc::full); });
  }
  bool exists(const std::string& name) override { return disk_->exists(name); }
  Result<std::uint64_t> file_size(const std::string& name) override {
    return contained([&] { return disk_->file_size(name); });
  }
  Result<std::unique_ptr<File>> lock(const std::string& name) override { return disk_->lock(name); }
  Result<Space> space() override {
    return contained([&] { return disk_->space(); });
  }
  std::string path(const std::string& name) const override { return disk_->path(name); }
  Result<> check_directory() override {
    return contained([&] { return disk_->check_directory(); });
  }
  Result<std::string> stamp(const std::string& name) override {
    return contained([&] { return disk_->stamp(name); });
  }

 private:
  Result<std::unique_ptr<File>> wrap(Result<std::unique_ptr<File>> opened) {
    if (!opened) return opened;
    return std::unique_ptr<File>(std::make_unique<LatchingFile>(std::move(opened).value(), latch_));
  }

  std::unique_ptr<Disk> disk_;
  std::shared_ptr<Latch> latch_;
};

}  // namespace

std::unique_ptr<Disk> make_latching_disk(std::unique_ptr<Disk> disk,
                                         std::function<void(const Error&)> on_failure) {
  PENSTOCK_ASSERT(disk != nullptr);
  return std::make_unique<LatchingDisk>(std::move(disk), std::move(on_failure));
}

}  // namespace penstock
