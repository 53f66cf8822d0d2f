#include "penstock/runtime.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "penstock/assert.h"
#include "penstock/worker_job.h"

namespace penstock {
namespace {
template <class Time>
Time read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return Time(Duration(static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000));
}
}  // namespace

std::uint64_t Random::next() {
  std::uint64_t number = 0;
  while (number == 0) fill(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

WallTime RealClock::wall() const { return read_clock<WallTime>(CLOCK_REALTIME); }
BootTime RealClock::boot() const { return read_clock<BootTime>(CLOCK_BOOTTIME); }

Awaitable<void> RealClock::sleep_until(BootTime when) {
  using Timer = boost::asio::basic_waitable_timer<
      std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;
  Timer timer(co_await boost::asio::this_coro::executor);
  timer.expires_after(when - boot());
  boost::system::error_code ignored;  // cancelled: the caller looks at its own state
  auto token = boost::asio::redirect_error(use_task, ignored);
  co_await timer.async_wait(token);
}

void SystemRandom::fill(std::span<std::byte> bytes) {
  // getrandom(2) with a small per-thread reserve: one system call serves many ids.
  thread_local std::array<std::byte, 4096> reserve;
  thread_local std::size_t left = 0;
  while (!bytes.empty()) {
    if (left == 0) {
      const ssize_t got = getrandom(reserve.data(), reserve.size(), 0);
      PENSTOCK_ASSERT(got == static_cast<ssize_t>(reserve.size()) &&
                      "getrandom never fails for this size once seeded");
      left = reserve.size();
    }
    const std::size_t take = std::min(left, bytes.size());
    std::copy_n(reserve.begin() + static_cast<std::ptrdiff_t>(reserve.size() - left), take,
                bytes.begin());
    left -= take;
    bytes = bytes.subspan(take);
  }
}

struct ThreadWorker::State {
  std::mutex mutex;
  std::condition_variable wake;   // of the threads
  std::condition_variable ended;  // of the destructor
  std::deque<std::function<void()>> jobs;
  bool stopping = false;
  std::string name;
  std::function<void(const Error&)> listener;  // set before the first job
  bool abandoned = false;
  unsigned running = 0;  // threads

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return stopping || !jobs.empty(); });
      if (jobs.empty()) break;
      auto job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      run_worker_job(name, job, listener);
      job = nullptr;  // what it holds may need locks of others
      lock.lock();
    }
    --running;
    ended.notify_all();
  }
};

ThreadWorker::ThreadWorker(std::string name, unsigned threads) : state_(std::make_shared<State>()) {
  name = thread_name(std::move(name));
  state_->name = name;
  state_->running = threads;
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([state = state_, name] {
      pthread_setname_np(pthread_self(), name.c_str());
      state->run();
    });
  }
}

ThreadWorker::~ThreadWorker() {
  bool all_ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->wake.notify_all();
    state_->ended.wait(lock, [this] { return state_->running == 0 || state_->abandoned; });
    all_ended = state_->running == 0;
  }
  for (auto& thread : threads_) {
    if (all_ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }
}

void ThreadWorker::on_thrown(std::function<void(const Error&)> listener) {
  state_->listener = std::move(listener);
}

void ThreadWorker::submit(std::function<void()> job) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->abandoned) return;
    state_->jobs.push_back(std::move(job));
  }
  state_->wake.notify_one();
}

void ThreadWorker::abandon() {
  std::deque<std::function<void()>> forgotten;  // destroyed without the lock
  {
    std::lock_guard lock(state_->mutex);
    state_->abandoned = true;
    state_->stopping = true;
    forgotten.swap(state_->jobs);
  }
  state_->wake.notify_all();
  state_->ended.notify_all();
}

}  // namespace penstock
