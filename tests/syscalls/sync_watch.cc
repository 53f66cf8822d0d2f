#include "tests/syscalls/sync_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <map>
#include <mutex>
#include <utility>

// The functions of the C library that are called in place of these; each makes its system call and
// notes it. What the product calls and is not here is not seen: a new call belongs here.
namespace penstock::syscalls {
namespace {

using Key = std::pair<dev_t, ino_t>;

struct Seen {
  std::string path;
  unsigned long changes = 0;
  unsigned long synced = 0;
};

struct Watch {
  std::mutex mutex;
  std::map<Key, Seen> files;  // directories, too: their changes are those of names
  unsigned long direct_writes = 0;
};
Watch& watch() {
  static auto* const kept = new Watch;  // outlives every thread
  return *kept;
}

std::string path_of(int fd) {
  char memory[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), memory, sizeof memory);
  return length > 0 ? std::string(memory, static_cast<std::size_t>(length)) : std::string();
}

void note_change(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))) return;
  const std::string path = path_of(fd);
  std::lock_guard lock(watch().mutex);
  Seen& seen = watch().files[{info.st_dev, info.st_ino}];
  seen.path = path;
  ++seen.changes;
}

void note_write(int fd) {
  if ((::fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
    std::lock_guard lock(watch().mutex);
    ++watch().direct_writes;
  }
  note_change(fd);
}

// A change of the names in the directory that `name` lies in.
void note_name(int directory, const char* name) {
  const std::string text(name);
  const auto slash = text.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : text.substr(0, slash + 1);
  const int fd = static_cast<int>(
      ::syscall(SYS_openat, directory, parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return;
  note_change(fd);
  ::close(fd);
}

bool is_there(int directory, const char* name) {
  struct stat info {};
  return ::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

// What is removed cannot be lost; its number may be given to another file.
void note_removal(int directory, const char* name) {
  struct stat info {};
  if (::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_nlink > 1) return;
  std::lock_guard lock(watch().mutex);
  watch().files.erase({info.st_dev, info.st_ino});
}

int synced(int fd, long call) {
  struct stat info {};
  unsigned long changes = 0;
  const bool known = ::fstat(fd, &info) == 0;
  const Key key{info.st_dev, info.st_ino};
  if (known) {
    std::lock_guard lock(watch().mutex);
    const auto found = watch().files.find(key);
    if (found != watch().files.end()) changes = found->second.changes;
  }
  const auto result = static_cast<int>(::syscall(call, fd));
  if (result != 0 || !known) return result;
  std::lock_guard lock(watch().mutex);
  const auto found = watch().files.find(key);
  if (found != watch().files.end()) found->second.synced = std::max(found->second.synced, changes);
  return result;
}

int opened(int directory, const char* name, int flags, mode_t mode) {
  const bool makes = (flags & O_CREAT) != 0 && !is_there(directory, name);
  const auto fd = static_cast<int>(::syscall(SYS_openat, directory, name, flags, mode));
  if (fd < 0) return fd;
  const int error = errno;
  if (makes) note_name(directory, name);
  if (!makes && (flags & O_TRUNC) != 0) note_change(fd);
  errno = error;
  return fd;
}

}  // namespace

std::vector<std::string> unsynced(const std::string& directory) {
  std::vector<std::string> found;
  std::lock_guard lock(watch().mutex);
  for (const auto& [key, seen] : watch().files) {
    if (seen.changes != seen.synced && seen.path.starts_with(directory)) found.push_back(seen.path);
  }
  return found;
}

unsigned long direct_writes() {
  std::lock_guard lock(watch().mutex);
  return watch().direct_writes;
}

}  // namespace penstock::syscalls

namespace watched = penstock::syscalls;

extern "C" {

int open(const char* name, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return watched::opened(AT_FDCWD, name, flags, mode);
}
int openat(int directory, const char* name, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return watched::opened(directory, name, flags, mode);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  watched::note_write(fd);
  return static_cast<ssize_t>(::syscall(SYS_pwrite64, fd, bytes, size, offset));
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  watched::note_write(fd);
  return static_cast<ssize_t>(::syscall(SYS_pwritev, fd, parts, count, offset, 0));
}
ssize_t write(int fd, const void* bytes, size_t size) {
  watched::note_write(fd);
  return static_cast<ssize_t>(::syscall(SYS_write, fd, bytes, size));
}
int ftruncate(int fd, off_t length) noexcept {
  watched::note_change(fd);
  return static_cast<int>(::syscall(SYS_ftruncate, fd, length));
}
int fallocate(int fd, int mode, off_t offset, off_t length) {
  watched::note_change(fd);
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, length));
}
int fdatasync(int fd) { return watched::synced(fd, SYS_fdatasync); }
int fsync(int fd) { return watched::synced(fd, SYS_fsync); }
int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  watched::note_removal(to_directory, to);
  const auto result =
      static_cast<int>(::syscall(SYS_renameat, from_directory, from, to_directory, to));
  if (result != 0) return result;
  watched::note_name(from_directory, from);
  watched::note_name(to_directory, to);
  return 0;
}
int unlinkat(int directory, const char* name, int flags) noexcept {
  watched::note_removal(directory, name);
  return static_cast<int>(::syscall(SYS_unlinkat, directory, name, flags));
}
int mkdirat(int directory, const char* name, mode_t mode) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_mkdirat, directory, name, mode));
  if (result == 0) watched::note_name(directory, name);
  return result;
}

}  // extern "C"
