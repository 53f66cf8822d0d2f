// Times steps that all threads of a process make on the same things: what they would wait for on
// many cores shows on few ones as time for lines of a cache that another core has just written, and
// as locks that were held. Thread-safety: one thread; calls block.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace penstock {

struct SharedStep {
  std::string name;
  std::function<void(std::uint64_t number)> call;  // from any thread; each call has a number
};

struct SharedResult {
  std::string name;
  double alone_ns = 0;     // of processor time for each call, by one thread
  double together_ns = 0;  // the same by all threads at once
  double lock_waits = 0;   // a million calls, all threads at once
};

// Cost: about `seconds` in all. Each step is timed several times in turns; the least counts.
std::vector<SharedResult> measure_shared_steps(const std::vector<SharedStep>& steps,
                                               unsigned threads, double seconds);

// What a warm request shares with others, behind two that show what sharing costs: one counter, and
// one mutex.
std::vector<SharedStep> all_shared_steps();

}  // namespace penstock
