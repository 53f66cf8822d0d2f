#include "tests/bench/microbench.h"

#include <time.h>

#include <algorithm>
#include <limits>

namespace penstock {
namespace {

constexpr int kRounds = 7;

double thread_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double time_of(const MicroStep& step, std::uint64_t calls) {
  const double begun = thread_ns();
  for (std::uint64_t i = 0; i < calls; ++i) step.call();
  return thread_ns() - begun;
}

// How many calls take about so long.
std::uint64_t calls_within(const MicroStep& step, double ns) {
  std::uint64_t calls = 1;
  for (;;) {
    const double took = time_of(step, calls);
    if (took > ns / 8)
      return std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(static_cast<double>(calls) * ns / took));
    calls *= 2;
  }
}

}  // namespace

std::vector<MicroResult> measure_steps(const std::vector<MicroStep>& steps, double seconds) {
  const double each_ns = seconds * 1e9 / static_cast<double>(steps.size() * (kRounds + 1));
  std::vector<std::uint64_t> calls;
  std::vector<MicroResult> results;
  for (const MicroStep& step : steps) {
    calls.push_back(calls_within(step, each_ns));
    results.push_back({step.name, std::numeric_limits<double>::max(), step.bytes, step.yardstick});
  }
  for (int round = 0; round < kRounds; ++round) {  // in turns, so that all meet the same neighbours
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double took = time_of(steps[i], calls[i]) / static_cast<double>(calls[i]);
      results[i].ns_per_call = std::min(results[i].ns_per_call, took);
    }
  }
  const auto cost = [](const MicroResult& result) {
    return result.bytes > 0 ? result.ns_per_call / static_cast<double>(result.bytes)
                            : result.ns_per_call;
  };
  for (MicroResult& result : results) {
    const auto yardstick = std::find_if(results.begin(), results.end(), [&](const auto& other) {
      return other.name == result.yardstick;
    });
    if (yardstick != results.end()) result.ratio = cost(result) / cost(*yardstick);
  }
  return results;
}

}  // namespace penstock
