// Which fragments a key's registers still name: the one question behind every removal.
// Thread-safety: any I/O thread.
#pragma once
#include <set>
#include <utility>

#include "server/background/removal/background_context.h"

namespace penstock {

// A fragment is referenced only if this (write-id, slot, generation) on this volume is named.
using Reference = std::pair<VolumeId, FragmentId>;
using References = std::set<Reference>;

void add_references(const BlobRef& blob, References& references);

// All that the object's record names, the parts in its manifest pages with it.
// Errors: corrupt; as Blobs::read_whole() - the pages cannot be read: nothing may be removed.
Task<References> references_of(BackgroundContext& context, Snapshot object, Deadline deadline);

// Is the upload terminal: done, aborted, or gone? True for an owner without an upload. Ask it
// before the object is read: an upload that has ended cannot hand its parts to the object later.
// Errors: those of Proposer::read().
Task<bool> upload_has_ended(BackgroundContext& context, const FragmentOwner& owner,
                            Deadline deadline);

}  // namespace penstock
