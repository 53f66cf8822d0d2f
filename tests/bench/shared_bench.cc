#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <limits>
#include <thread>

#include "penstock/counted_mutex.h"
#include "tests/bench/shared_steps.h"

namespace penstock {
namespace {

constexpr int kRounds = 3;
constexpr std::uint64_t kCallsBetweenLooks = 64;

double thread_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

std::uint64_t all_lock_waits() {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kLockNames.size(); ++i) {
    sum += lock_waits(static_cast<LockName>(i)).load();
  }
  return sum;
}

struct Together {
  double ns = 0;
  double lock_waits = 0;
};
Together run(const SharedStep& step, unsigned threads, std::chrono::duration<double> time) {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<double> ns{0};
  std::latch ready(threads);
  const std::uint64_t waits_before = all_lock_waits();
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::uint64_t number = std::uint64_t{t} << 32;
      const std::uint64_t first = number;
      ready.arrive_and_wait();
      const auto end = std::chrono::steady_clock::now() + time;
      const double begun = thread_ns();
      while (std::chrono::steady_clock::now() < end) {
        for (std::uint64_t i = 0; i < kCallsBetweenLooks; ++i) step.call(number++);
      }
      ns.fetch_add(thread_ns() - begun);
      calls.fetch_add(number - first);
    });
  }
  for (std::thread& thread : running) thread.join();
  const auto made = static_cast<double>(std::max<std::uint64_t>(calls, 1));
  return {ns / made, 1e6 * static_cast<double>(all_lock_waits() - waits_before) / made};
}

}  // namespace

std::vector<SharedResult> measure_shared_steps(const std::vector<SharedStep>& steps,
                                               unsigned threads, double seconds) {
  const std::chrono::duration<double> each(seconds /
                                           static_cast<double>(steps.size() * kRounds * 2));
  constexpr double kMost = std::numeric_limits<double>::max();
  std::vector<SharedResult> results;
  for (const SharedStep& step : steps) results.push_back({step.name, kMost, kMost, 0});
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      SharedResult& result = results[i];
      result.alone_ns = std::min(result.alone_ns, run(steps[i], 1, each).ns);
      const Together together = run(steps[i], threads, each);
      if (together.ns >= result.together_ns) continue;
      result.together_ns = together.ns;
      result.lock_waits = together.lock_waits;
    }
  }
  return results;
}

}  // namespace penstock
