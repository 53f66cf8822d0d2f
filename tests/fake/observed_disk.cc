#include "tests/fake/observed_disk.h"

namespace penstock {
namespace {

using Call = FakeDisk::Call;
using SharedObserver = std::shared_ptr<const DiskObserver>;  // files outlive their disk

class ObservedFile final : public File {
 public:
  ObservedFile(std::unique_ptr<File> file, SharedObserver observer, std::string name)
      : file_(std::move(file)), observer_(std::move(observer)), name_(std::move(name)) {}

  Result<std::size_t> read_at(std::uint64_t offset, MutBytes buffer) override {
    (*observer_)(Call::read, name_);
    return file_->read_at(offset, buffer);
  }
  std::optional<Result<std::size_t>> read_now(std::uint64_t offset, MutBytes buffer) override {
    auto now = file_->read_now(offset, buffer);
    if (now) (*observer_)(Call::read, name_);  // else no call was made
    return now;
  }
  Result<> write_parts(std::uint64_t offset, std::span<const ConstBytes> parts) override {
    (*observer_)(Call::write, name_);
    return file_->write_parts(offset, parts);
  }
  Result<> sync() override {
    (*observer_)(Call::sync, name_);
    return file_->sync();
  }
  Result<> allocate(std::uint64_t offset, std::uint64_t length) override {
    (*observer_)(Call::allocate, name_);
    return file_->allocate(offset, length);
  }
  Result<> truncate(std::uint64_t length) override {
    (*observer_)(Call::truncate, name_);
    return file_->truncate(length);
  }
  Result<std::uint64_t> size() const override { return file_->size(); }
  int descriptor() const override { return file_->descriptor(); }

 private:
  std::unique_ptr<File> file_;
  SharedObserver observer_;
  std::string name_;
};

class ObservedDisk final : public Disk {
 public:
  ObservedDisk(std::unique_ptr<Disk> disk, DiskObserver observer)
      : disk_(std::move(disk)),
        observer_(std::make_shared<const DiskObserver>(std::move(observer))) {}

  Result<std::unique_ptr<File>> open(const std::string& name, OpenMode mode) override {
    (*observer_)(call_of(name, mode), name);
    TRY(file, disk_->open(name, mode));
    return std::unique_ptr<File>(std::make_unique<ObservedFile>(std::move(file), observer_, name));
  }
  Result<> rename(const std::string& from, const std::string& to) override {
    (*observer_)(Call::rename, from);
    return disk_->rename(from, to);
  }
  Result<> remove(const std::string& name) override {
    (*observer_)(Call::remove, name);
    return disk_->remove(name);
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    (*observer_)(Call::read, directory);
    return disk_->list(directory);
  }
  Result<> make_directory(const std::string& name) override {
    (*observer_)(Call::make_directory, name);
    return disk_->make_directory(name);
  }
  Result<> sync_directory(const std::string& name) override {
    (*observer_)(Call::sync_directory, name);
    return disk_->sync_directory(name);
  }
  bool exists(const std::string& name) override { return disk_->exists(name); }
  Result<std::uint64_t> file_size(const std::string& name) override {
    return disk_->file_size(name);
  }
  Result<std::unique_ptr<File>> lock(const std::string& name) override { return disk_->lock(name); }
  Result<Space> space() override { return disk_->space(); }
  std::string path(const std::string& name) const override { return disk_->path(name); }
  Result<> check_directory() override { return disk_->check_directory(); }

 private:
  Call call_of(const std::string& name, OpenMode mode) {
    const bool there = disk_->exists(name);
    if (mode == OpenMode::write_new) return there ? Call::truncate : Call::create;
    if (mode == OpenMode::append && !there) return Call::create;
    return Call::read;
  }

  std::unique_ptr<Disk> disk_;
  SharedObserver observer_;
};

}  // namespace

std::unique_ptr<Disk> make_observed_disk(std::unique_ptr<Disk> disk, DiskObserver observer) {
  return std::make_unique<ObservedDisk>(std::move(disk), std::move(observer));
}

}  // namespace penstock
