#include "penstock/whole_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace penstock {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& path, int number = errno) {
  const Errc code = number == ENOENT                       ? Errc::not_found
                    : number == ENOSPC || number == EDQUOT ? Errc::full
                                                           : Errc::io;
  return fail(code, path + ": " + std::strerror(number));
}

Result<> write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<> sync_directory_of(const std::string& path) {
  const std::string directory = directory_of(path);
  const Descriptor entry(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entry.get() < 0 || ::fsync(entry.get()) != 0) return system_error(directory);
  return {};
}

// A name that is free again when this is gone, however it ends.
struct Temporary {
  explicit Temporary(std::string name) : path(std::move(name)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() { ::unlink(path.c_str()); }
  const std::string path;
};

// The bytes under the temporary name, synced. What a crash has left there goes.
Result<> write_temporary(const std::string& temporary, std::string_view bytes, unsigned mode) {
  ::unlink(temporary.c_str());
  const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0) return system_error(temporary);
  if (::fchmod(file.get(), mode) != 0) return system_error(temporary);
  CHECK_OK(write_all(file.get(), bytes, temporary));
  if (::fsync(file.get()) != 0) return system_error(temporary);
  return {};
}

}  // namespace

Result<std::string> read_whole_file(const std::string& path, std::size_t bytes_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(path);
  if (!S_ISREG(status.st_mode)) return fail(Errc::invalid, path + " is no file");
  std::string bytes;
  char buffer[64 << 10];
  while (true) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(path);
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(count));
    if (bytes.size() > bytes_max) return fail(Errc::invalid, path + " is too long");
  }
}

Result<> replace_whole_file(const std::string& path, std::string_view bytes, unsigned mode,
                            ModeOfOld old) {
  struct stat status {};
  if (old == ModeOfOld::kept && ::stat(path.c_str(), &status) == 0) mode = status.st_mode & 07777;
  const Temporary temporary(path + ".tmp");
  CHECK_OK(write_temporary(temporary.path, bytes, mode));
  if (::rename(temporary.path.c_str(), path.c_str()) != 0) return system_error(path);
  return sync_directory_of(path);
}

Result<> make_whole_file(const std::string& path, std::string_view bytes, unsigned mode) {
  const Temporary temporary(path + ".tmp");
  CHECK_OK(write_temporary(temporary.path, bytes, mode));
  // link() gives the name only if it is free, with the bytes already in place.
  if (::link(temporary.path.c_str(), path.c_str()) != 0) {
    if (errno == EEXIST) return fail(Errc::invalid, path + " is there already");
    return system_error(path);
  }
  if (::unlink(temporary.path.c_str()) != 0) return system_error(temporary.path);
  return sync_directory_of(path);
}

Result<FileLock> FileLock::try_lock(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(path);
  FileLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return system_error(path);
  std::string says(200, '\0');
  const ssize_t count = ::pread(fd, says.data(), says.size(), 0);
  says.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return fail(Errc::busy, path + " is locked by " + (says.empty() ? "another process" : says));
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<> FileLock::write(std::string_view bytes) const {
  if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) return system_error("a lock");
  return write_all(fd_, bytes, "a lock");
}

}  // namespace penstock
