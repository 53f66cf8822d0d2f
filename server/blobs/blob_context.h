// What the writers and readers of one Blobs share. Internal to server/blobs: whoever is outside
// calls Blobs. Ownership: borrows all, which outlive it.
#pragma once
#include "penstock/buffer.h"
#include "penstock/memory_budget.h"
#include "penstock/repeat_budget.h"
#include "penstock/runtime.h"
#include "placement/codec.h"
#include "server/blobs/blob_hedge.h"
#include "server/blobs/blobs.h"
#include "server/membership/membership.h"

namespace penstock {

struct BlobContext {
  Membership& membership;
  Clock& clock;
  Random& random;
  BufferPool& buffers;
  MemoryBudget& budget;
  CodecCache& codecs;
  const BlobOptions options;
  HedgeBudget hedges{};  // of all readers together
  static constexpr std::size_t kVolumesTold = 256;
  RepeatBudget dropped_lines{kVolumesTold};  // about volumes that uploads go on without
};

}  // namespace penstock
