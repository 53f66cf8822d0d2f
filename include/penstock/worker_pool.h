// Threads that many workers share. 64 volumes of one device with threads of their own would be
// hundreds, of which a device can keep a few busy; here they have as many as are wanted at once, up
// to a bound.
//
// Each worker has its own queue and may keep `at_once` threads busy, so that one whose jobs hang
// takes no more than these from the others. Workers with jobs are served in rotation, one job at a
// time. A thread begins when a job finds none idle, and ends when it was idle for a while; one
// always stays.
//
// A job must not wait for a job of another worker of the same pool: the pool may have no thread
// left for that. Jobs that others wait for have a pool of their own.
// Thread-safety: all methods from any thread.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "penstock/runtime.h"

namespace penstock {

class WorkerPool {
 public:
  static constexpr std::chrono::milliseconds kIdleMax{10'000};

  // `name`: of the threads, cut after 15 characters. `threads_max`: at least 1.
  WorkerPool(std::string name, unsigned threads_max, std::chrono::milliseconds idle_max = kIdleMax);
  // Waits for the threads to end. Pre: its workers are gone, or were abandoned.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // With `at_once` 1 its jobs run in order. `name`: in what is logged of a job that throws.
  // The worker's destructor runs what was submitted, and waits for it. A worker that was abandoned
  // gives back its share: threads that are stuck in its jobs are no longer counted, and end with
  // these jobs.
  std::unique_ptr<Worker> make_worker(std::string name, unsigned at_once);

  // Now, without those that hang in jobs of abandoned workers.
  unsigned threads() const;

 private:
  struct State;
  class PoolWorker;
  std::shared_ptr<State> state_;
};

}  // namespace penstock
