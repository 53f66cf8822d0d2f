// Keeps the fragments of blobs that a long read still needs: the holders are asked not to remove
// what an update has freed. Thread-safety: any I/O thread.
#pragma once
#include <vector>

#include "server/blobs/blob_context.h"

namespace penstock {

// As Blobs::pin_for_reader(). `context` must outlive it.
Awaitable<void> pin_all_for_reader(BlobContext* context, std::vector<BlobRef> blobs,
                                   Deadline deadline);

}  // namespace penstock
