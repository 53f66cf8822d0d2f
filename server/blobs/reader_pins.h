// Keeps the fragments of blobs that a long read still needs: asks their holders not to remove what
// an update has freed. Best effort: a reader that loses its fragments all the same fails, and never
// sends wrong bytes. Thread-safety: any I/O thread.
#pragma once
#include <vector>

#include "server/blobs/blob_writer.h"

namespace penstock {

// Ends when all holders have answered or `deadline` has passed. `context` must outlive it.
Awaitable<void> pin_for_reader(BlobContext* context, std::vector<BlobRef> blobs, Deadline deadline);

}  // namespace penstock
