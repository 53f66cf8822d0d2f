#include "penstock/md5_service.h"

#include <algorithm>
#include <array>
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

struct Job {
  Md5* stream = nullptr;
  ConstBytes left;
  Completion<void> done;
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
  std::deque<Job> waiting;
  unsigned passes = 0;  // running or submitted

  // True: another pass should be submitted.
  bool enqueue(Job job);
  // The next job for a free lane; `is_idle`: no lane has work, so without a job the pass ends here.
  std::optional<Job> next_job(bool is_idle);
  void run_pass();
  void run_lanes(std::vector<Job>& jobs);
};

bool Md5Service::State::enqueue(Job job) {
  const std::lock_guard lock(mutex);
  waiting.push_back(std::move(job));
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
    hash_quantum(kernel, jobs);
  }
}

Md5Service::Md5Service(Worker& worker, unsigned threads, Md5Kernel fastest)
    : worker_(worker), state_(std::make_shared<State>()) {
  PENSTOCK_ASSERT(threads > 0);
  state_->threads = threads;
  state_->kernel = available_md5_kernel(fastest);
}

Task<> Md5Service::update(Md5& stream, ConstBytes bytes) {
  if (bytes.size() < kInlineBytesMax) {
    stream.update(bytes);
    co_return Result<>{};
  }
  auto start = [this, &stream, bytes](Completion<void> done) {
    if (!state_->enqueue(Job{&stream, bytes, std::move(done)})) return;
    worker_.submit([state = state_] { state->run_pass(); });
  };
  co_return co_await await_completion<void>(std::move(start));
}

}  // namespace penstock
