// What every process of the product stands on: clock, randomness, memory and I/O threads.
//
// Order of destruction: made first and destroyed last. Coroutines that io.stop() has cut off are
// destroyed with the I/O threads, and give memory back then: so the threads go first of these, and
// all that runs on them goes before this object.
// Thread-safety: each part from any thread.
#pragma once
#include "penstock/buffer.h"
#include "penstock/memory_budget.h"
#include "penstock/runtime.h"
#include "placement/codec.h"
#include "server/node/io_threads.h"

namespace penstock {

struct ProcessOptions {
  unsigned io_threads = 1;
  std::size_t memory_budget_bytes = limits::kMemoryBudgetBytes;  // of bodies under way
  std::size_t idle_buffer_bytes = 24 * limits::kMiB;  // kept for the next ones, for a moment
};

struct ProcessBase {
  explicit ProcessBase(const ProcessOptions& options);

  RealClock clock;
  SystemRandom random;
  BufferPool buffers;
  MemoryBudget budget;
  CodecCache codecs;
  IoThreads io;
};

}  // namespace penstock
