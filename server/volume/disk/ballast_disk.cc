
#include "penstock/assert.h"
#include "server/volume/disk/disk.h"

namespace penstock {
namespace {

using Release = std::shared_ptr<const std::function<bool()>>;  // shared: files outlive their disk

// A write that failed halfway is repeated whole: it goes to the same offsets.
template <class Call>
auto retry_when_full(const Release& release, Call call) -> decltype(call()) {
  auto result = call();
  if (!result && result.error().code == Errc::full && (*release)()) return call();
  return result;
}

class BallastFile final : public File {
 public:
  BallastFile(std::unique_ptr<File> file, Release release)
      : file_(std::move(file)), release_(std::move(release)) {}

  Result<std::size_t> read_at(std::uint64_t offset, MutBytes buffer) override {
    return file_->read_at(offset, buffer);
  }
  std::optional<Result<std::size_t>> read_now(std::uint64_t offset, MutBytes buffer) override {
    return file_->read_now(offset, buffer);
  }
  bool pin(PinnedPages& pages, std::uint64_t offset, std::size_t length, bool may_block) override {
    return file_->pin(pages, offset, length, may_block);
  }
  Result<> write_parts(std::uint64_t offset, std::span<const ConstBytes> parts) override {
    return retry_when_full(release_, [&] { return file_->write_parts(offset, parts); });
  }
  Result<> sync() override { return file_->sync(); }
  Result<> allocate(std::uint64_t offset, std::uint64_t length) override {
    return file_->allocate(offset, length);
  }
  Result<> truncate(std::uint64_t length) override { return file_->truncate(length); }
  Result<std::uint64_t> size() const override { return file_->size(); }
  int descriptor() const override { return file_->descriptor(); }

 private:
  std::unique_ptr<File> file_;
  Release release_;
};

class BallastDisk final : public Disk {
 public:
  BallastDisk(std::unique_ptr<Disk> disk, std::function<bool()> release)
      : disk_(std::move(disk)),
        release_(std::make_shared<const std::function<bool()>>(std::move(release))) {}

  Result<std::unique_ptr<File>> open(const std::string& name, OpenMode mode) override {
    auto opened = mode == OpenMode::read
                      ? disk_->open(name, mode)
                      : retry_when_full(release_, [&] { return disk_->open(name, mode); });
    if (!opened || mode == OpenMode::read) return opened;
    return std::unique_ptr<File>(
        std::make_unique<BallastFile>(std::move(opened).value(), release_));
  }
  Result<> rename(const std::string& from, const std::string& to) override {
    return retry_when_full(release_, [&] { return disk_->rename(from, to); });
  }
  Result<> remove(const std::string& name) override { return disk_->remove(name); }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    return disk_->list(directory);
  }
  Result<> make_directory(const std::string& name) override { return disk_->make_directory(name); }
  Result<> sync_directory(const std::string& name) override { return disk_->sync_directory(name); }
  bool exists(const std::string& name) override { return disk_->exists(name); }
  Result<std::uint64_t> file_size(const std::string& name) override {
    return disk_->file_size(name);
  }
  Result<std::unique_ptr<File>> lock(const std::string& name) override { return disk_->lock(name); }
  Result<Space> space() override { return disk_->space(); }
  std::string path(const std::string& name) const override { return disk_->path(name); }
  Result<> check_directory() override { return disk_->check_directory(); }
  Result<std::string> stamp(const std::string& name) override { return disk_->stamp(name); }

 private:
  std::unique_ptr<Disk> disk_;
  Release release_;
};

}  // namespace

std::unique_ptr<Disk> make_ballast_disk(std::unique_ptr<Disk> disk, std::function<bool()> release) {
  PENSTOCK_ASSERT(disk != nullptr && release != nullptr);
  return std::make_unique<BallastDisk>(std::move(disk), std::move(release));
}

}  // namespace penstock
