/* LD_PRELOAD shim: the wall clock is $SKEWED_CLOCK_SECONDS ahead of the machine's. Other clocks are as they are. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long skew(void) {
  static long seconds;
  static int known;
  if (!known) {
    const char *text = getenv("SKEWED_CLOCK_SECONDS");
    seconds = text ? atol(text) : 0;
    known = 1;
  }
  return seconds;
}
/* By system calls: the library's own functions may not be ready when memory is first wanted. */
int clock_gettime(clockid_t clock, struct timespec *now) {
  int done = (int)syscall(SYS_clock_gettime, clock, now);
  if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += skew();
  return done;
}
int gettimeofday(struct timeval *now, void *zone) {
  int done = (int)syscall(SYS_gettimeofday, now, zone);
  if (done == 0 && now) now->tv_sec += skew();
  return done;
}
time_t time(time_t *now) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (now) *now = t.tv_sec;
  return t.tv_sec;
}
