/* LD_PRELOAD shim: while the file $FAULTY_IO_CONTROL names path prefixes (one a line), every read, write, sync, allocation,
 * creation and rename below one of them fails with EIO. What was opened before counts, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static ssize_t (*real_read)(int, void *, size_t);

/* The prefixes, one a line; 0 if there are none. */
static int prefixes_of(char *prefixes, size_t size) {
  const char *control = getenv("FAULTY_IO_CONTROL");
  if (!control || access(control, F_OK) != 0) return 0;
  static int (*real_open)(const char *, int, ...);
  if (!real_open) real_open = dlsym(RTLD_NEXT, "open");
  if (!real_read) real_read = dlsym(RTLD_NEXT, "read");
  int fd = real_open(control, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t got = real_read(fd, prefixes, size - 1);
  close(fd);
  if (got <= 0) return 0;
  prefixes[got] = 0;
  return 1;
}
static int below_one(const char *path, char *prefixes) {
  char *rest = NULL;
  for (char *prefix = strtok_r(prefixes, "\n", &rest); prefix; prefix = strtok_r(NULL, "\n", &rest)) {
    if (strncmp(path, prefix, strlen(prefix)) == 0) return 1;
  }
  return 0;
}
static int bad_path(const char *path) {
  char prefixes[8192], resolved[4096];
  if (!prefixes_of(prefixes, sizeof prefixes)) return 0;
  if (path[0] != '/' && getcwd(resolved, sizeof resolved)) {
    strncat(resolved, "/", sizeof resolved - strlen(resolved) - 1);
    strncat(resolved, path, sizeof resolved - strlen(resolved) - 1);
    path = resolved;
  }
  return below_one(path, prefixes);
}
static int bad_fd(int fd) {
  char prefixes[8192], link[64], path[4096];
  if (!prefixes_of(prefixes, sizeof prefixes)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t got = readlink(link, path, sizeof path - 1);
  if (got <= 0) return 0;
  path[got] = 0;
  return below_one(path, prefixes);
}

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = dlsym(RTLD_NEXT, name)
#define FAIL_IF(bad) \
  if (bad) { errno = EIO; return -1; }

ssize_t read(int fd, void *b, size_t n) { if (!real_read) real_read = dlsym(RTLD_NEXT, "read"); FAIL_IF(bad_fd(fd)) return real_read(fd, b, n); }
ssize_t write(int fd, const void *b, size_t n) { REAL(ssize_t, "write", int, const void *, size_t); FAIL_IF(bad_fd(fd)) return real(fd, b, n); }
ssize_t pread64(int fd, void *b, size_t n, off64_t o) { REAL(ssize_t, "pread64", int, void *, size_t, off64_t); FAIL_IF(bad_fd(fd)) return real(fd, b, n, o); }
ssize_t pread(int fd, void *b, size_t n, off_t o) { return pread64(fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t); FAIL_IF(bad_fd(fd)) return real(fd, b, n, o); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { return pwrite64(fd, b, n, o); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t o) { REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t); FAIL_IF(bad_fd(fd)) return real(fd, v, n, o); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t o) { return pwritev64(fd, v, n, o); }
ssize_t preadv64v2(int fd, const struct iovec *v, int c, off64_t o, int f) { REAL(ssize_t, "preadv64v2", int, const struct iovec *, int, off64_t, int); FAIL_IF(bad_fd(fd)) return real(fd, v, c, o, f); }
ssize_t preadv2(int fd, const struct iovec *v, int c, off_t o, int f) { return preadv64v2(fd, v, c, o, f); }
int fsync(int fd) { REAL(int, "fsync", int); FAIL_IF(bad_fd(fd)) return real(fd); }
int fdatasync(int fd) { REAL(int, "fdatasync", int); FAIL_IF(bad_fd(fd)) return real(fd); }
int fallocate64(int fd, int m, off64_t o, off64_t l) { REAL(int, "fallocate64", int, int, off64_t, off64_t); FAIL_IF(bad_fd(fd)) return real(fd, m, o, l); }
int fallocate(int fd, int m, off_t o, off_t l) { return fallocate64(fd, m, o, l); }
int rename(const char *a, const char *b) { REAL(int, "rename", const char *, const char *); FAIL_IF(bad_path(a)) return real(a, b); }
int open64(const char *path, int flags, ...) {
  REAL(int, "open64", const char *, int, ...);
  va_list list;
  va_start(list, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;
  va_end(list);
  FAIL_IF(bad_path(path))
  return real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;
  va_end(list);
  return open64(path, flags, mode);
}
