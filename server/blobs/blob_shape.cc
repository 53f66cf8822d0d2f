#include "server/blobs/blob_shape.h"

#include <algorithm>

namespace penstock {

Result<BlobShape> choose_shape(const LayoutPolicy& policy, std::uint64_t size_bytes,
                               bool replicated, std::size_t available) {
  const std::uint32_t smallest = policy.m > 0 ? 2 : 1;
  if (available < smallest) {
    return fail(Errc::unavailable, std::to_string(available) + " volumes can take fragments");
  }
  BlobShape shape;
  shape.unit_bytes = policy.unit_bytes;
  shape.size_bytes = size_bytes;
  const auto volumes = static_cast<std::uint32_t>(
      std::min<std::size_t>(available, std::size_t{policy.k} + policy.m));
  shape.m = std::min(policy.m, volumes - 1);
  shape.k = replicated || size_bytes <= policy.replicated_bytes_max
                ? 1
                : std::min(policy.k, volumes - shape.m);
  return shape;
}

}  // namespace penstock
