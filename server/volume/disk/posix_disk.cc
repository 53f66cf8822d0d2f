#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <vector>

#include "penstock/assert.h"
#include "penstock/limits.h"
#include "server/volume/disk/cached_pages.h"
#include "server/volume/disk/disk.h"

// All names are resolved from a descriptor of the directory, so that a volume whose path was taken
// over by another directory can never mix the two; check_directory() compares path and descriptor.
namespace penstock {
namespace {

constexpr std::size_t kAlignment = 4096;

// The process or the machine lacks something; the disk has not failed.
bool is_scarce(int number) {
  return number == EMFILE || number == ENFILE || number == ENOMEM || number == EAGAIN ||
         number == ENOBUFS;
}

Error system_error(int number, std::string_view call, const std::string& path) {
  Errc code = Errc::io;
  if (number == ENOENT || number == ENOTDIR) code = Errc::not_found;
  if (number == ENOSPC || number == EDQUOT) code = Errc::full;
  if (is_scarce(number)) code = Errc::overloaded;
  return fail(code,
              std::string(call) + " " + path + ": " + std::generic_category().message(number));
}

Error final_error(int number, std::string_view call, const std::string& path) {
  Error error = system_error(number, call, path);
  if (error.code == Errc::overloaded) error.code = Errc::io;
  return error;
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);  // every byte that matters was synced before
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

template <class Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Tries again for a while what failed for want of descriptors or memory: others give theirs back.
// Runs on workers only.
template <class Call>
auto retry_scarce(Call call) {
  const auto until = std::chrono::steady_clock::now() + limits::kDescriptorRetry;
  auto result = retry_interrupted(call);
  while (result < 0 && is_scarce(errno) && std::chrono::steady_clock::now() < until) {
    const timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
    result = retry_interrupted(call);
  }
  return result;
}

// O_DIRECT can be accepted by open() and refused by the first transfer; one aligned read tells.
bool direct_works(int fd) {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Free> page(std::aligned_alloc(kAlignment, kAlignment));
  return retry_interrupted([&] { return ::pread(fd, page.get(), kAlignment, 0); }) >= 0;
}

class PosixFile final : public File {
 public:
  // `notes_reads`: the file system may write down the time of each read.
  PosixFile(std::string path, Descriptor buffered, Descriptor direct, bool notes_reads)
      : path_(std::move(path)),
        buffered_(std::move(buffered)),
        direct_(std::move(direct)),
        notes_reads_(notes_reads) {}

  Result<std::size_t> read_at(std::uint64_t offset, MutBytes buffer) override {
    std::size_t done = 0;
    while (done < buffer.size()) {
      const ssize_t got = retry_scarce([&] {
        return ::pread(buffered_.get(), buffer.data() + done, buffer.size() - done,
                       static_cast<off_t>(offset + done));
      });
      if (got < 0) return system_error(errno, "read", path_);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  // RWF_NOWAIT waits neither for a page nor for a lock. But noting the time may wait for a journal.
  // And where a page is missing the call begins to read ahead, for which ext4 may wait for blocks
  // of the file's extent tree: with such a disk hung, all I/O threads of a store once stood still.
  std::optional<Result<std::size_t>> read_now(std::uint64_t offset, MutBytes buffer) override {
    if (notes_reads_ || !cached_.has(buffered_.get(), offset, buffer.size())) return std::nullopt;
    std::size_t done = 0;
    while (done < buffer.size()) {
      const iovec part{buffer.data() + done, buffer.size() - done};
      const ssize_t got = retry_interrupted([&] {
        return ::preadv2(buffered_.get(), &part, 1, static_cast<off_t>(offset + done), RWF_NOWAIT);
      });
      if (got < 0 && (errno == EAGAIN || errno == EOPNOTSUPP)) return std::nullopt;
      if (got < 0) return Result<std::size_t>(system_error(errno, "read", path_));
      // The end of the file, or a page that is not in memory: Linux 5.9 and 5.10 confuse them.
      if (got == 0) return std::nullopt;
      done += static_cast<std::size_t>(got);
    }
    return Result<std::size_t>(done);
  }

  bool pin(PinnedPages& pages, std::uint64_t offset, std::size_t length, bool may_block) override {
    if (!may_block && (notes_reads_ || !cached_.has(buffered_.get(), offset, length))) return false;
    return pages.pin(buffered_.get(), offset, length);
  }

  Result<> write_parts(std::uint64_t offset, std::span<const ConstBytes> parts) override {
    PENSTOCK_ASSERT(parts.size() <= kPartsMax);
    boost::container::static_vector<iovec, kPartsMax> left;
    for (const ConstBytes& part : parts) {
      if (direct_) {
        PENSTOCK_ASSERT(offset % kAlignment == 0 && part.size() % kAlignment == 0);
        PENSTOCK_ASSERT(reinterpret_cast<std::uintptr_t>(part.data()) % kAlignment == 0);
      }
      if (!part.empty()) left.push_back({const_cast<std::byte*>(part.data()), part.size()});
    }
    return write_all({left.data(), left.size()}, offset);
  }

  Result<> sync() override {
    // Whatever its number: what the system could not write it may have dropped.
    if (::fdatasync(buffered_.get()) != 0) return final_error(errno, "sync", path_);
    return {};
  }

  Result<> allocate(std::uint64_t offset, std::uint64_t length) override {
    const auto from = static_cast<off_t>(offset);
    const auto bytes = static_cast<off_t>(length);
    int failed = 0;
    if (retry_scarce([&] { return ::fallocate(buffered_.get(), 0, from, bytes); }) != 0) {
      failed = errno;
    }
    if (failed == EOPNOTSUPP) failed = ::posix_fallocate(buffered_.get(), from, bytes);
    if (failed != 0) return system_error(failed, "allocate", path_);
    return {};
  }

  Result<> truncate(std::uint64_t length) override {
    const auto bytes = static_cast<off_t>(length);
    if (retry_scarce([&] { return ::ftruncate(buffered_.get(), bytes); }) != 0) {
      return system_error(errno, "truncate", path_);
    }
    return {};
  }

  Result<std::uint64_t> size() const override {
    struct stat info {};
    if (::fstat(buffered_.get(), &info) != 0) return system_error(errno, "stat", path_);
    return static_cast<std::uint64_t>(info.st_size);
  }

  int descriptor() const override { return buffered_.get(); }

 private:
  Result<> write_all(std::span<iovec> left, std::uint64_t offset) {
    const int fd = direct_ ? direct_.get() : buffered_.get();
    while (!left.empty()) {
      const ssize_t put = retry_scarce([&] {
        return ::pwritev(fd, left.data(), static_cast<int>(left.size()),
                         static_cast<off_t>(offset));
      });
      if (put < 0) return system_error(errno, "write", path_);
      auto done = static_cast<std::size_t>(put);
      if (direct_) done -= done % kAlignment;  // the rest of it is written again
      if (done == 0) {
        return fail(Errc::io,
                    "write " + path_ + ": only " + std::to_string(put) + " bytes were written");
      }
      offset += done;
      while (!left.empty() && done >= left.front().iov_len) {
        done -= left.front().iov_len;
        left = left.subspan(1);
      }
      if (done == 0) continue;
      left.front().iov_base = static_cast<std::byte*>(left.front().iov_base) + done;
      left.front().iov_len -= done;
    }
    return {};
  }

  std::string path_;
  Descriptor buffered_;
  Descriptor direct_;  // only with OpenMode::direct, where it works
  const bool notes_reads_;
  CachedPages cached_;
};

class PosixDisk final : public Disk {
 public:
  PosixDisk(std::string root, Descriptor directory)
      : root_(std::move(root)), directory_(std::move(directory)) {}

  Result<std::unique_ptr<File>> open(const std::string& name, OpenMode mode) override {
    int flags = O_CLOEXEC;
    switch (mode) {
      case OpenMode::read:
        flags |= O_RDONLY;
        break;
      case OpenMode::write_new:
        flags |= O_RDWR | O_CREAT | O_TRUNC;
        break;
      case OpenMode::append:
        flags |= O_RDWR | O_CREAT;
        break;
      case OpenMode::direct:
        flags |= O_RDWR;
        break;
    }
    Descriptor buffered(open_at(name, flags | O_NOATIME));
    const bool foreign = !buffered && errno == EPERM;  // the owner may ask for that, and root
    if (foreign) buffered = Descriptor(open_at(name, flags));
    if (!buffered) return system_error(errno, "open", path(name));
    Descriptor direct;
    if (mode == OpenMode::direct) {
      direct = Descriptor(open_at(name, flags | O_DIRECT));
      if (!direct && is_scarce(errno)) return system_error(errno, "open", path(name));
      if (direct && !direct_works(direct.get())) direct = Descriptor();
    }
    return std::unique_ptr<File>(
        std::make_unique<PosixFile>(path(name), std::move(buffered), std::move(direct), foreign));
  }

  Result<> rename(const std::string& from, const std::string& to) override {
    if (::renameat(fd(), from.c_str(), fd(), to.c_str()) != 0) {
      return system_error(errno, "rename", path(from));
    }
    return {};
  }

  Result<> remove(const std::string& name) override {
    if (::unlinkat(fd(), name.c_str(), 0) != 0) return system_error(errno, "remove", path(name));
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& name) override {
    const int opened = open_at(name.empty() ? "." : name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) return system_error(errno, "list", path(name));
    struct Close {
      void operator()(DIR* stream) const { ::closedir(stream); }
    };
    const std::unique_ptr<DIR, Close> stream(::fdopendir(opened));
    if (!stream) {
      const int number = errno;
      ::close(opened);
      return system_error(number, "list", path(name));
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string_view found = entry->d_name;
      if (found != "." && found != "..") names.emplace_back(found);
      errno = 0;
    }
    if (errno != 0) return system_error(errno, "list", path(name));
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<> make_directory(const std::string& name) override {
    if (::mkdirat(fd(), name.c_str(), 0755) != 0 && errno != EEXIST) {
      return system_error(errno, "make directory", path(name));
    }
    return {};
  }

  Result<> sync_directory(const std::string& name) override {
    const Descriptor opened(open_at(name.empty() ? "." : name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened) return system_error(errno, "open", path(name));
    if (::fsync(opened.get()) != 0) return final_error(errno, "sync", path(name));
    return {};
  }

  bool exists(const std::string& name) override {
    return ::faccessat(fd(), name.c_str(), F_OK, 0) == 0;
  }

  Result<std::uint64_t> file_size(const std::string& name) override {
    struct stat info {};
    if (::fstatat(fd(), name.c_str(), &info, 0) != 0) {
      return system_error(errno, "stat", path(name));
    }
    return static_cast<std::uint64_t>(info.st_size);
  }

  Result<std::unique_ptr<File>> lock(const std::string& name) override {
    Descriptor opened(open_at(name, O_RDWR | O_CREAT | O_CLOEXEC));
    if (!opened) return system_error(errno, "open", path(name));
    if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return fail(Errc::busy, path(name) + " is locked");
      return system_error(errno, "lock", path(name));
    }
    return std::unique_ptr<File>(
        std::make_unique<PosixFile>(path(name), std::move(opened), Descriptor(), true));
  }

  Result<Space> space() override {
    struct statvfs numbers {};
    struct stat info {};
    if (::fstatvfs(fd(), &numbers) != 0) return system_error(errno, "statvfs", root_);
    if (::fstat(fd(), &info) != 0) return system_error(errno, "stat", root_);
    return Space{numbers.f_bavail * numbers.f_frsize, numbers.f_blocks * numbers.f_frsize,
                 static_cast<std::uint64_t>(info.st_dev)};
  }

  std::string path(const std::string& name) const override {
    return name.empty() ? root_ : root_ + "/" + name;
  }

  Result<> check_directory() override {
    struct stat held {};
    struct stat found {};
    if (::fstat(fd(), &held) != 0) return system_error(errno, "stat", root_);
    if (::stat(root_.c_str(), &found) != 0) return system_error(errno, "stat", root_);
    if (held.st_dev != found.st_dev || held.st_ino != found.st_ino) {
      return fail(Errc::not_found, root_ + " is another directory than the one opened");
    }
    return {};
  }

  Result<std::string> stamp(const std::string& name) override {
    struct stat info {};
    if (::fstatat(fd(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return system_error(errno, "stat", path(name));
    }
    std::string stamp;
    for (const auto number :
         {static_cast<long long>(info.st_dev), static_cast<long long>(info.st_ino),
          static_cast<long long>(info.st_size), static_cast<long long>(info.st_ctim.tv_sec),
          static_cast<long long>(info.st_ctim.tv_nsec)}) {
      stamp += std::to_string(number) + " ";
    }
    return stamp;
  }

 private:
  int fd() const { return directory_.get(); }
  int open_at(const std::string& name, int flags) const {
    return retry_scarce([&] { return ::openat(fd(), name.c_str(), flags, 0644); });
  }

  std::string root_;
  Descriptor directory_;
};

}  // namespace

Result<std::unique_ptr<Disk>> make_posix_disk(std::string directory) {
  Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return system_error(errno, "open", directory);
  return std::unique_ptr<Disk>(
      std::make_unique<PosixDisk>(std::move(directory), std::move(opened)));
}

}  // namespace penstock
