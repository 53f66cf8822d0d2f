// Hashes the bodies of many connections at once. MD5 is serial within one stream, so one core does
// 0.7 GB/s of it; in the lanes of vector registers it does eight or sixteen streams in the time of
// about one and a half.
#pragma once
#include <memory>

#include "penstock/md5.h"
#include "penstock/md5_lanes.h"
#include "penstock/result.h"
#include "penstock/runtime.h"

namespace penstock {

// Each caller waits for its own bytes, so the queue is as long as there are callers at most:
// bodies, which the memory budget bounds. The worker must end before the callers' executors do.
// Thread-safety: update() from any thread; a stream belongs to one call at a time.
// Ownership: borrows the worker.
class Md5Service {
 public:
  // Below this the way to another thread and back costs more than it saves.
  static constexpr std::size_t kInlineBytesMax = 32 * 1024;

  // `threads`: how many of the worker's threads may hash at the same time.
  Md5Service(Worker& worker, unsigned threads, Md5Kernel fastest = Md5Kernel::avx512);

  // A body of which more than one update will come, as long as this is kept: others may wait up to
  // a millisecond for it, to be hashed side by side. May outlive the service.
  using Expected = std::shared_ptr<const void>;
  Expected expect_body();

  // Adds `bytes` to `stream`; both stay untouched by the caller until it returns. Never fails.
  Task<> update(Md5& stream, ConstBytes bytes);

 private:
  struct State;
  Worker& worker_;
  std::shared_ptr<State> state_;  // shared: a thread leaves it after the last caller has its answer
};

}  // namespace penstock
