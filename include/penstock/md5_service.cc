#include "penstock/md5_service.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "penstock/assert.h"
#include "penstock/async.h"
#include "penstock/caught.h"

namespace penstock {
namespace {

// Between two of these, lanes that ran dry are filled from the queue.
constexpr std::size_t kQuantumBytes = 32 * 1024;
// Eight streams cost hardly more than one, so a pass waits for the streams that are on their way: so
// long at most, which is less than a stream of one piece takes alone.
constexpr std::chrono::microseconds kFillWait{1000};
constexpr std::size_t kLanesWorthAWait = 8;
// A wait that nobody joined is left out next time, then twice, four times … so many times at most.
constexpr unsigned kWaitsLeftOutMax = 64;

using SteadyClock = std::chrono::steady_clock;  // for threads alone; nothing is promised by it

struct Job {
  Md5* stream = nullptr;
  ConstBytes left;
  Completion<void> done;
  SteadyClock::time_point arrived;
};

// One step of all lanes, as far as the shortest of them goes. Jobs that are done are answered and
// removed.
void hash_quantum(Md5Kernel kernel, std::vector<Job>& jobs) {
  std::size_t bytes = kQuantumBytes;
  std::array<Md5Lane, 16> lanes;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    bytes = std::min(bytes, jobs[i].left.size());
    lanes[i] = {&jobs[i].stream->words(), jobs[i].left.data()};
  }
  const std::size_t blocks = bytes / kMd5BlockBytes;
  if (blocks > 0) md5_blocks_in_lanes(kernel, std::span(lanes).first(jobs.size()), blocks);
  std::erase_if(jobs, [blocks](Job& job) {
    job.stream->skip(blocks * kMd5BlockBytes);
    job.left = job.left.subspan(blocks * kMd5BlockBytes);
    if (job.left.size() >= kMd5BlockBytes) return false;
    job.stream->update(job.left);
    job.done(Result<>{});
    return true;
  });
}

}  // namespace

struct Md5Service::State {
  unsigned threads;
  Md5Kernel kernel;
  std::mutex mutex;  // guards what follows
  std::condition_variable arrival;
  std::deque<Job> waiting;
  unsigned passes = 0;  // running or submitted
  std::size_t bodies = 0;
  unsigned waits_left_out = 0;  // of those that `backoff` says
  unsigned backoff = 0;

  // True: another pass should be submitted.
  bool enqueue(Job job);
  // The next job for a free lane; `is_idle`: no lane has work, so without a job the pass ends here.
  std::optional<Job> next_job(bool is_idle);
  // Waits for a job that may share the pass with `jobs`; false: it is not worth it, or none came.
  bool wait_for_company(const std::vector<Job>& jobs);
  void run_pass();
  void run_lanes(std::vector<Job>& jobs);
};

bool Md5Service::State::enqueue(Job job) {
  const std::lock_guard lock(mutex);
  job.arrived = SteadyClock::now();
  waiting.push_back(std::move(job));
  arrival.notify_one();
  // A pass takes as many streams as it has lanes; a further one is worth a thread only beyond that.
  const std::size_t lanes = md5_lanes(kernel);
  const std::size_t wanted = (waiting.size() + lanes - 1) / lanes;
  if (passes >= threads || wanted <= passes) return false;
  ++passes;
  return true;
}

std::optional<Job> Md5Service::State::next_job(bool is_idle) {
  const std::lock_guard lock(mutex);
  if (waiting.empty()) {
    if (is_idle) --passes;
    return std::nullopt;
  }
  Job job = std::move(waiting.front());
  waiting.pop_front();
  return job;
}

bool Md5Service::State::wait_for_company(const std::vector<Job>& jobs) {
  std::unique_lock lock(mutex);
  if (jobs.size() >= std::min({bodies, kLanesWorthAWait, md5_lanes(kernel)})) return false;
  const auto oldest = std::min_element(
      jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.arrived < b.arrived; });
  const auto until = oldest->arrived + kFillWait;
  if (SteadyClock::now() >= until) return false;
  if (waits_left_out > 0) {
    --waits_left_out;
    return false;
  }
  const bool joined = arrival.wait_until(lock, until, [this] { return !waiting.empty(); });
  if (joined) {
    backoff = 0;
  } else if (jobs.size() == 1) {
    backoff = std::min(std::max(1U, 2 * backoff), kWaitsLeftOutMax);
    waits_left_out = backoff;
  }
  return joined;
}

void Md5Service::State::run_pass() {
  std::vector<Job> jobs;
  for (bool ended = false; !ended;) {
    try {
      run_lanes(jobs);
      ended = true;
    } catch (...) {  // a stream that is half hashed fails; the pass goes on with others
      const Error error = error_of_exception("MD5");
      for (const Job& job : jobs) job.done(error);
      jobs.clear();
    }
  }
}

void Md5Service::State::run_lanes(std::vector<Job>& jobs) {
  while (true) {
    while (jobs.size() < md5_lanes(kernel)) {
      auto job = next_job(jobs.empty());
      if (!job) break;
      job->left = job->stream->fill_block(job->left);
      jobs.push_back(std::move(*job));
    }
    if (jobs.empty()) return;
    if (!wait_for_company(jobs)) hash_quantum(kernel, jobs);
  }
}

Md5Service::Md5Service(Worker& worker, unsigned threads, Md5Kernel fastest)
    : worker_(worker), state_(std::make_shared<State>()) {
  PENSTOCK_ASSERT(threads > 0);
  state_->threads = threads;
  state_->kernel = available_md5_kernel(fastest);
}

Md5Service::Expected Md5Service::expect_body() {
  const std::lock_guard lock(state_->mutex);
  ++state_->bodies;
  return Expected(state_.get(), [state = state_](const void*) {
    const std::lock_guard guard(state->mutex);
    --state->bodies;
  });
}

Task<> Md5Service::update(Md5& stream, ConstBytes bytes) {
  if (bytes.size() < kInlineBytesMax) {
    stream.update(bytes);
    co_return Result<>{};
  }
  auto start = [this, &stream, bytes](Completion<void> done) {
    if (!state_->enqueue(Job{&stream, bytes, std::move(done), {}})) return;
    worker_.submit([state = state_] { state->run_pass(); });
  };
  co_return co_await await_completion<void>(std::move(start));
}

}  // namespace penstock
