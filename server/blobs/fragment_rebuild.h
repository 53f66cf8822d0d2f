// One fragment of a blob made again on another volume: copied from where it lies if that can still
// be read, else computed from any k others. Verified block by block on the way.
// Thread-safety: any I/O thread.
#pragma once
#include <cstdint>

#include "server/blobs/blob_context.h"

namespace penstock {

// As Blobs::make_again(), on the volume `target`. `slot` of `blob` may be a zero location, or lie
// on a volume out of reach.
Task<Location> rebuild_fragment(BlobContext& context, FragmentOwner owner, BlobRef blob,
                                std::uint32_t slot, VolumeId target, Deadline deadline);

}  // namespace penstock
