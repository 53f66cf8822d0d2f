#include "server/blobs/leases.h"

#include <algorithm>

namespace penstock {

void leave_out(BlobRef& blob, const std::vector<FragmentId>& lost) {
  for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
    const FragmentId id = blob.fragment(slot);
    if (std::find(lost.begin(), lost.end(), id) != lost.end()) blob.locations[slot] = Location{};
  }
}

}  // namespace penstock
