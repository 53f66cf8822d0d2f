/* LD_PRELOAD shim: while the file $SCARCE_IO_CONTROL names a path prefix, every open below it fails with NUMBER, as in a process
 * or on a machine that has no descriptors or no memory left. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_scarce(int directory, const char *name) {
  const char *control = getenv("SCARCE_IO_CONTROL");
  char prefix[4096], link[64], path[4096];
  if (!control) return 0;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return 0;
  ssize_t got = syscall(SYS_read, fd, prefix, sizeof prefix - 1);
  syscall(SYS_close, fd);
  if (got <= 0 || name[0] == '/') return 0;
  prefix[got] = 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
  got = readlink(link, path, sizeof path - 1);
  if (got <= 0) return 0;
  path[got] = 0;
  if (strncmp(path, prefix, strlen(prefix)) != 0) return 0;
  return 1;
}

int openat64(int directory, const char *path, int flags, ...) {
  static int (*real)(int, const char *, int, ...);
  if (!real) real = dlsym(RTLD_NEXT, "openat64");
  va_list list;
  va_start(list, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;
  va_end(list);
  if (is_scarce(directory, path)) {
    errno = NUMBER;
    return -1;
  }
  return real(directory, path, flags, mode);
}
int openat(int directory, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;
  va_end(list);
  return openat64(directory, path, flags, mode);
}
