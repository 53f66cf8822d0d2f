// Verified ranges of one fragment. Internal to server/volume.
#pragma once
#include <optional>

#include "penstock/volume_client.h"
#include "server/volume/fragments/fragment_cache.h"

namespace penstock {

// Errors: invalid - the range is empty, longer than 1 MiB or passes the end.
Result<> check_range(const FragmentHandle& handle, const FragmentReadRequest& request);

// Reads whole blocks, checks each, returns exactly the range, or the blocks with their checksums:
// in memory of `buffers`, or, from 128 KiB up and if the request allows it, as pinned pages, with
// checksums as a range of the file for sendfile.
// nullopt: it would block, and `may_block` is false. Pre: check_range().
// Errors: corrupt; io. Thread-safety: any thread.
std::optional<Result<Piece>> read_verified(const FragmentHandlePtr& handle,
                                           const FragmentReadRequest& request, BufferPool& buffers,
                                           bool may_block);

}  // namespace penstock
