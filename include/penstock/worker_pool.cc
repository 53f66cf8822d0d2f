#include "penstock/worker_pool.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/assert.h"
#include "penstock/caught.h"
#include "penstock/worker_job.h"

namespace penstock {
namespace {

// What a worker has to do. Guarded by the pool's mutex.
struct Queue {
  std::deque<std::function<void()>> jobs;
  std::string name;
  std::function<void(const Error&)> listener;  // set before the first job
  unsigned at_once = 1;
  unsigned running = 0;  // jobs
  unsigned in_line = 0;  // how often it stands in the pool's line
  bool abandoned = false;
  std::condition_variable ended;
};

// A thread that waits for a turn. Each has a condition of its own: so the one that slept last is
// woken, whose stack is still in a processor's cache.
struct Sleeper {
  std::condition_variable wake;
  bool woken = false;  // guarded by the pool's mutex
};
using SleeperPtr = std::shared_ptr<Sleeper>;

}  // namespace

// Held by the threads, too, which are detached: one that is stuck may be the last to go.
struct WorkerPool::State : std::enable_shared_from_this<State> {
  State(std::string thread_name, unsigned most, std::chrono::milliseconds idle)
      : name(std::move(thread_name)), threads_max(most), idle_max(idle) {}

  const std::string name;
  const unsigned threads_max;
  const std::chrono::milliseconds idle_max;
  std::mutex mutex;                         // guards what follows, and the queues
  std::vector<SleeperPtr> sleepers;         // has room for all; who slept last is last
  std::condition_variable ended;            // a thread has
  std::deque<std::shared_ptr<Queue>> line;  // a queue stands in it once for each job to begin
  unsigned threads = 0;                     // without those that hang in abandoned jobs
  unsigned free = 0;                        // of these wait for a turn, or are about to
  bool stopping = false;

  // Pre, of these four: the mutex is held.
  // Is there a new turn? Usually one; a thread that is awake takes all there are.
  bool line_up(const std::shared_ptr<Queue>& queue) {
    const std::size_t before = line.size();
    while (queue->in_line < queue->jobs.size() &&
           queue->running + queue->in_line < queue->at_once) {
      line.push_back(queue);
      ++queue->in_line;
    }
    begin_threads();
    return line.size() > before;
  }
  // Null: no thread sleeps. The caller wakes it without the mutex, which it wants at once.
  SleeperPtr take_sleeper() {
    if (sleepers.empty()) return nullptr;
    SleeperPtr sleeper = std::move(sleepers.back());
    sleepers.pop_back();
    sleeper->woken = true;
    return sleeper;
  }
  void begin_threads() {
    try {
      while (line.size() > free && threads < threads_max) begin_thread();
    } catch (...) {
      // No more threads are to be had: those that there are do it, later.
      if (threads == 0) report_exception("the begin of a thread");
    }
  }
  void begin_thread() {
    sleepers.reserve(threads + 1UL);
    auto sleeper = std::make_shared<Sleeper>();
    std::thread([self = shared_from_this(), sleeper] { self->run(sleeper); }).detach();
    ++threads;
    ++free;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void run(const SleeperPtr& self) {
    pthread_setname_np(pthread_self(), name.c_str());
    Lock lock(mutex);
    bool counted = true;
    while (counted && wait_for_turn(self, lock)) {
      const std::shared_ptr<Queue> queue = std::move(line.front());
      line.pop_front();
      --queue->in_line;
      if (queue->jobs.empty()) continue;  // it was abandoned
      --free;
      counted = run_next(queue, lock);
    }
    if (counted) {
      --threads;
      --free;
    }
    ended.notify_all();
  }

  // False: this thread is to end. One stays, since no more may be to be had later.
  bool wait_for_turn(const SleeperPtr& self, Lock& lock) {
    while (line.empty() && !stopping) {
      self->woken = false;
      sleepers.push_back(self);
      const auto is_woken = [&self] { return self->woken; };
      if (threads == 1) {
        self->wake.wait(lock, is_woken);
      } else if (!self->wake.wait_for(lock, idle_max, is_woken)) {
        std::erase(sleepers, self);
        if (line.empty() && threads > 1) return false;
      }
    }
    return !line.empty();
  }

  // False: the worker was abandoned meanwhile, and this thread is no longer counted.
  bool run_next(const std::shared_ptr<Queue>& queue, Lock& lock) {
    auto job = std::move(queue->jobs.front());
    queue->jobs.pop_front();
    ++queue->running;
    lock.unlock();
    run_worker_job(queue->name, job, queue->listener);
    job = nullptr;  // what it holds may need locks of others
    lock.lock();
    if (queue->abandoned) return false;
    --queue->running;
    ++free;  // before it lines up: this thread takes the next turn itself, and wakes nobody
    line_up(queue);
    if (queue->running == 0 && queue->jobs.empty()) queue->ended.notify_all();
    return true;
  }
};

class WorkerPool::PoolWorker final : public Worker {
 public:
  PoolWorker(std::shared_ptr<State> state, std::string name, unsigned at_once)
      : state_(std::move(state)), queue_(std::make_shared<Queue>()) {
    queue_->name = std::move(name);
    queue_->at_once = at_once;
  }
  ~PoolWorker() override {
    std::unique_lock lock(state_->mutex);
    queue_->ended.wait(lock, [this] {
      return queue_->abandoned || (queue_->running == 0 && queue_->jobs.empty());
    });
  }
  void on_thrown(std::function<void(const Error&)> listener) override {
    queue_->listener = std::move(listener);
  }
  void submit(std::function<void()> job) override {
    SleeperPtr woken;
    {
      std::lock_guard lock(state_->mutex);
      if (queue_->abandoned) return;
      queue_->jobs.push_back(std::move(job));
      if (state_->line_up(queue_)) woken = state_->take_sleeper();
    }
    if (woken) woken->wake.notify_one();
  }
  void abandon() override {
    std::deque<std::function<void()>> forgotten;  // destroyed without the lock
    std::lock_guard lock(state_->mutex);
    if (std::exchange(queue_->abandoned, true)) return;
    forgotten.swap(queue_->jobs);
    state_->threads -= queue_->running;
    state_->begin_threads();
    queue_->ended.notify_all();
  }

 private:
  const std::shared_ptr<State> state_;
  const std::shared_ptr<Queue> queue_;
};

WorkerPool::WorkerPool(std::string name, unsigned threads_max, std::chrono::milliseconds idle_max) {
  PENSTOCK_ASSERT(threads_max > 0);
  state_ = std::make_shared<State>(thread_name(std::move(name)), threads_max, idle_max);
  const std::lock_guard lock(state_->mutex);
  state_->begin_thread();
}

WorkerPool::~WorkerPool() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  while (const SleeperPtr sleeper = state_->take_sleeper()) sleeper->wake.notify_one();
  state_->ended.wait(lock, [this] { return state_->threads == 0; });
}

std::unique_ptr<Worker> WorkerPool::make_worker(std::string name, unsigned at_once) {
  PENSTOCK_ASSERT(at_once > 0);
  return std::make_unique<PoolWorker>(state_, std::move(name), at_once);
}

unsigned WorkerPool::threads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->threads;
}

}  // namespace penstock
