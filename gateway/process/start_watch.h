// Watches a start: says what it waits for if it takes long, and lets a signal end it. Until the
// start is over nobody else takes signals, and a disk that does not answer holds it up for ever.
// Thread-safety: one thread makes it and ends it.
#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>

namespace penstock {

class StartWatch {
 public:
  // `waits_for`: what a start that takes long waits for, a literal. Without a thread for it nothing
  // is watched. Pre: SIGTERM and SIGINT are blocked.
  explicit StartWatch(const char* waits_for);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  // The start is over. A signal that came stays pending, for whoever takes signals from now on.
  ~StartWatch();

 private:
  void watch(const char* waits_for);

  std::mutex mutex_;  // guards the next two
  std::condition_variable end_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace penstock
