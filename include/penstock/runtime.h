// What the process may ask of the outside world besides disks and sockets: time, randomness,
// threads that may block. All product code takes these by constructor, so that the simulator runs
// the same code under a seed without real time, threads or randomness.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// Thread-safety: every method may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime wall() const = 0;
  virtual BootTime boot() const = 0;  // CLOCK_BOOTTIME
  // Resumes on the caller's executor at or after `when`. Cancellation of the coroutine ends the
  // wait.
  virtual Awaitable<void> sleep_until(BootTime when) = 0;
};

// The first time behind `now` that is a whole multiple of `every`. What is done now and then, and
// may as well be done a little earlier, waits for it: all that is due then wakes its thread once.
inline BootTime next_whole(BootTime now, Duration every) {
  return now - now.time_since_epoch() % every + every;
}

// Thread-safety: every method may be called from any thread.
class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::byte> bytes) = 0;
  std::uint64_t next();  // never 0
  template <class Id>
  Id id128() {
    return Id{next(), next()};
  }
};

// Runs functions that may block. A Worker made by make_worker() runs its jobs one after another, in
// order. The queue is unbounded: the caller bounds what it submits. Thread-safety: submit() may be
// called from any thread. The destructor runs what was submitted, then joins.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual void submit(std::function<void()> job) = 0;
  // What a job throws ends that job only: it is logged and counted (caught.h), and told to
  // `listener`, on the worker's thread. Before the first submit().
  virtual void on_thrown(std::function<void(const Error&)> listener) { (void)listener; }
  // For a worker with a job that may never end: forgets the jobs that have not begun and those that
  // come later, and the destructor does not wait. Before the call, answer those who wait for such a
  // job by other means.
  virtual void abandon() {}
};

// A set of the real ones: CLOCK_REALTIME / CLOCK_BOOTTIME, getrandom(2), std::thread.
class RealClock final : public Clock {
 public:
  WallTime wall() const override;
  BootTime boot() const override;
  Awaitable<void> sleep_until(BootTime when) override;
};
class SystemRandom final : public Random {
 public:
  void fill(std::span<std::byte> bytes) override;
};
// `threads` threads share one queue; with one thread the jobs run in order.
class ThreadWorker final : public Worker {
 public:
  ThreadWorker(std::string name, unsigned threads);
  ~ThreadWorker() override;
  void submit(std::function<void()> job) override;
  void on_thrown(std::function<void(const Error&)> listener) override;
  void abandon() override;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the threads: an abandoned one outlives the worker
  std::vector<std::thread> threads_;
};

}  // namespace penstock
