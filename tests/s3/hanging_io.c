/* LD_PRELOAD shim: while the file $HANGING_IO_CONTROL names path prefixes (one a line), calls on files below one of them do not
 * return; with a number before the prefix, each takes so many milliseconds longer. Calls are: reads (cached ones too),
 * writes, syncs, allocations, opens, renames, removals, changes of mode, lists, stats. Reads with RWF_NOWAIT wait for nothing: they answer
 * EAGAIN. When its line goes, they go on. What was opened before counts, too. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* By system calls, which this library does not catch. */
static int prefixes_of(char *prefixes, size_t size) {
  const char *control = getenv("HANGING_IO_CONTROL");
  if (!control) return 0;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return 0;
  ssize_t got = syscall(SYS_read, fd, prefixes, size - 1);
  syscall(SYS_close, fd);
  if (got <= 0) return 0;
  prefixes[got] = 0;
  return 1;
}
/* What calls on a path do: go on (0), hang (-1), take so many milliseconds longer. */
static long delay_of(const char *path) {
  char prefixes[8192], *rest = NULL;
  if (!prefixes_of(prefixes, sizeof prefixes)) return 0;
  for (char *line = strtok_r(prefixes, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char *prefix = strchr(line, '/');
    if (!prefix) continue;
    size_t length = strlen(prefix);
    if (strncmp(path, prefix, length) != 0 || (path[length] != 0 && path[length] != '/')) continue;
    return prefix == line ? -1 : atol(line);
  }
  return 0;
}
static void hang_while(const char *path) {
  long delay_ms = delay_of(path);
  if (delay_ms > 0) {
    struct timespec pause = {delay_ms / 1000, delay_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    return;
  }
  while (delay_of(path) < 0) {
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
  }
}
/* The path of `name`, seen from the directory `fd`. 0: not known. */
static int path_at(int fd, const char *name, char *path, size_t size) {
  char link[64];
  ssize_t got = 0;
  if (name && name[0] == '/') return snprintf(path, size, "%s", name) > 0;
  if (fd == AT_FDCWD) {
    if (!getcwd(path, size / 2)) return 0;
    got = (ssize_t)strlen(path);
  } else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    got = readlink(link, path, size / 2);
    if (got <= 0) return 0;
  }
  path[got] = 0;
  if (name) snprintf(path + got, size - (size_t)got, "/%s", name);
  return 1;
}
static void hang_at(int fd, const char *name) {
  char path[8192];
  if (!getenv("HANGING_IO_CONTROL")) return;
  int kept = errno;
  if (path_at(fd, name, path, sizeof path)) hang_while(path);
  errno = kept;
}
static int hangs_now(int fd) {
  char path[8192];
  return getenv("HANGING_IO_CONTROL") && path_at(fd, NULL, path, sizeof path) && delay_of(path) != 0;
}
static void hang_fd(int fd) { hang_at(fd, NULL); }

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = dlsym(RTLD_NEXT, name)

ssize_t pread64(int fd, void *b, size_t n, off64_t o) { REAL(ssize_t, "pread64", int, void *, size_t, off64_t); hang_fd(fd); return real(fd, b, n, o); }
ssize_t pread(int fd, void *b, size_t n, off_t o) { return pread64(fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t); hang_fd(fd); return real(fd, b, n, o); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { return pwrite64(fd, b, n, o); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t o) { REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t); hang_fd(fd); return real(fd, v, n, o); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t o) { return pwritev64(fd, v, n, o); }
ssize_t preadv64v2(int fd, const struct iovec *v, int c, off64_t o, int f) {
  REAL(ssize_t, "preadv64v2", int, const struct iovec *, int, off64_t, int);
  if ((f & RWF_NOWAIT) && hangs_now(fd)) {  // it waits for nothing
    errno = EAGAIN;
    return -1;
  }
  hang_fd(fd);
  return real(fd, v, c, o, f);
}
ssize_t preadv2(int fd, const struct iovec *v, int c, off_t o, int f) { return preadv64v2(fd, v, c, o, f); }
int fsync(int fd) { REAL(int, "fsync", int); hang_fd(fd); return real(fd); }
int fdatasync(int fd) { REAL(int, "fdatasync", int); hang_fd(fd); return real(fd); }
int fallocate64(int fd, int m, off64_t o, off64_t l) { REAL(int, "fallocate64", int, int, off64_t, off64_t); hang_fd(fd); return real(fd, m, o, l); }
int fallocate(int fd, int m, off_t o, off_t l) { return fallocate64(fd, m, o, l); }
int ftruncate64(int fd, off64_t l) { REAL(int, "ftruncate64", int, off64_t); hang_fd(fd); return real(fd, l); }
int ftruncate(int fd, off_t l) { return ftruncate64(fd, l); }
int fstat64(int fd, struct stat64 *s) { REAL(int, "fstat64", int, struct stat64 *); hang_fd(fd); return real(fd, s); }
int fstat(int fd, struct stat *s) { REAL(int, "fstat", int, struct stat *); hang_fd(fd); return real(fd, s); }
int fstatat64(int d, const char *p, struct stat64 *s, int f) { REAL(int, "fstatat64", int, const char *, struct stat64 *, int); hang_at(d, p); return real(d, p, s, f); }
int fstatat(int d, const char *p, struct stat *s, int f) { REAL(int, "fstatat", int, const char *, struct stat *, int); hang_at(d, p); return real(d, p, s, f); }
int stat64(const char *p, struct stat64 *s) { REAL(int, "stat64", const char *, struct stat64 *); hang_at(AT_FDCWD, p); return real(p, s); }
int stat(const char *p, struct stat *s) { REAL(int, "stat", const char *, struct stat *); hang_at(AT_FDCWD, p); return real(p, s); }
int lstat64(const char *p, struct stat64 *s) { REAL(int, "lstat64", const char *, struct stat64 *); hang_at(AT_FDCWD, p); return real(p, s); }
int lstat(const char *p, struct stat *s) { REAL(int, "lstat", const char *, struct stat *); hang_at(AT_FDCWD, p); return real(p, s); }
int fstatvfs64(int fd, struct statvfs64 *s) { REAL(int, "fstatvfs64", int, struct statvfs64 *); hang_fd(fd); return real(fd, s); }
int fstatvfs(int fd, struct statvfs *s) { REAL(int, "fstatvfs", int, struct statvfs *); hang_fd(fd); return real(fd, s); }
int faccessat(int d, const char *p, int m, int f) { REAL(int, "faccessat", int, const char *, int, int); hang_at(d, p); return real(d, p, m, f); }
int renameat(int a, const char *p, int b, const char *q) { REAL(int, "renameat", int, const char *, int, const char *); hang_at(a, p); return real(a, p, b, q); }
int rename(const char *p, const char *q) { REAL(int, "rename", const char *, const char *); hang_at(AT_FDCWD, p); return real(p, q); }
int unlink(const char *p) { REAL(int, "unlink", const char *); hang_at(AT_FDCWD, p); return real(p); }
int chmod(const char *p, mode_t m) { REAL(int, "chmod", const char *, mode_t); hang_at(AT_FDCWD, p); return real(p, m); }
int rmdir(const char *p) { REAL(int, "rmdir", const char *); hang_at(AT_FDCWD, p); return real(p); }
int unlinkat(int d, const char *p, int f) { REAL(int, "unlinkat", int, const char *, int); hang_at(d, p); return real(d, p, f); }
int mkdirat(int d, const char *p, mode_t m) { REAL(int, "mkdirat", int, const char *, mode_t); hang_at(d, p); return real(d, p, m); }
struct dirent64 *readdir64(DIR *d) { REAL(struct dirent64 *, "readdir64", DIR *); hang_fd(dirfd(d)); return real(d); }
struct dirent *readdir(DIR *d) { REAL(struct dirent *, "readdir", DIR *); hang_fd(dirfd(d)); return real(d); }
int openat64(int d, const char *path, int flags, ...) {
  REAL(int, "openat64", int, const char *, int, ...);
  va_list list;
  va_start(list, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;
  va_end(list);
  hang_at(d, path);
  return real(d, path, flags, mode);
}
int openat(int d, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;
  va_end(list);
  return openat64(d, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  REAL(int, "open64", const char *, int, ...);
  va_list list;
  va_start(list, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;
  va_end(list);
  hang_at(AT_FDCWD, path);
  return real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;
  va_end(list);
  return open64(path, flags, mode);
}
