// One fragment of a blob made again on another volume: copied from where it lies if that can still
// be read, else computed from any k others. Verified block by block on the way.
// Thread-safety: any I/O thread.
#pragma once
#include <cstdint>

#include "server/blobs/blob_writer.h"

namespace penstock {

// The new fragment is durable, with a generation of its own and the lease of one just written; no
// record names it yet. `slot` of `blob` may be a zero location, or lie on a volume out of reach.
// Errors: unavailable, corrupt - fewer than k other fragments can be read; full, io, ... - what the
// target says; overloaded - no memory.
Task<Location> rebuild_fragment(BlobContext& context, FragmentOwner owner, BlobRef blob,
                                std::uint32_t slot, VolumeId target, Deadline deadline);

// How many more fragments of the blob may be lost: those that lie on open volumes, less k.
// Negative: it cannot be read now.
int spares_of(const Membership& membership, const BlobRef& blob);

}  // namespace penstock
