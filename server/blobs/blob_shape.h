// Which layout a new blob gets, from the cluster's policy and the volumes that can take fragments.
// Pure.
#pragma once
#include <cstddef>
#include <cstdint>

#include "penstock/planted.h"
#include "placement/cluster_map.h"
#include "placement/layout.h"

namespace penstock {

// k + min(1, m): fewer fragments than this are never acknowledged.
inline std::uint32_t fragments_needed(const BlobShape& shape) {
  return shape.k + (shape.m > 0 && holds(Rule::ack_floor) ? 1 : 0);
}

// k' = min(k, available - m), at least 1+1; small or `replicated` blobs are
// 1 + min(m, available - 1).
// Errors: unavailable - fewer volumes than the smallest layout of the policy needs.
Result<BlobShape> choose_shape(const LayoutPolicy& policy, std::uint64_t size_bytes,
                               bool replicated, std::size_t available);

}  // namespace penstock
