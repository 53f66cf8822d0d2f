// Where the fragments of a blob go: layout and volumes of a new one, a volume for one fragment
// more. By the map, its ring and what is known of the volumes; asks none.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "placement/layout.h"
#include "server/blobs/blob_context.h"

namespace penstock {

// Volumes that failed an attempt to write this very blob, with the reason.
using Skipped = std::vector<std::pair<VolumeId, Errc>>;

struct PlacedBlob {
  Layout layout;
  std::vector<VolumeId> volumes;  // by slot
};

// Errors: unavailable - too few usable volumes; full - because they are full.
Result<PlacedBlob> place_blob(const BlobContext& context, WriteId write_id,
                              std::uint64_t size_bytes, bool replicated, const Skipped& failed);

// The first volume of the ring that holds no fragment of the blob; where hosts are failure domains,
// on a host that has less than m of them. Nullopt: none is left.
std::optional<VolumeId> place_for_one_more(const BlobContext& context, const BlobRef& blob);

// As Blobs has them.
std::vector<std::uint32_t> misplaced_slots_of(const BlobContext& context, const BlobRef& blob);
int spares_of(const Membership& membership, const BlobRef& blob);
bool is_open_volume(const Membership& membership, VolumeId id);

}  // namespace penstock
