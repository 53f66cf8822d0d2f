// Times small steps beside a yardstick that is timed in the same process, so that figures of two
// machines compare: bytes beside OpenSSL's MD5, calls beside a small sort.
// Thread-safety: one thread; calls block.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace penstock {

struct MicroStep {
  std::string name;
  std::uint64_t bytes = 0;  // that one call works on; 0: what counts are calls
  std::function<void()> call;
  std::string yardstick;  // the name of another step of the list; empty: it is one
};

struct MicroResult {
  std::string name;
  double ns_per_call = 0;  // of the thread's processor time
  std::uint64_t bytes = 0;
  std::string yardstick;
  double ratio = 0;  // of time, to the yardstick's: for each byte, or for each call
};

// The least of several rounds: what others do on the machine only adds. Pre: yardsticks stand
// before those who name them. Cost: about `seconds` in all.
std::vector<MicroResult> measure_steps(const std::vector<MicroStep>& steps, double seconds);

// All that are measured.
std::vector<MicroStep> all_steps();

}  // namespace penstock
