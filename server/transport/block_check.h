// The blocks of a fragment that another process has sent, checked where they arrive: from the
// writer's memory to the reader's each block is guarded by one checksum, which knows its place.
// Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/volume_client.h"

namespace penstock {

// `offset`: of the first block, in the fragment. Errors: corrupt - a block was changed on its way,
// or is not the one that it should be; or there is not one checksum a block.
Result<> check_blocks(const FragmentId& id, std::uint64_t offset, ConstBytes blocks,
                      const std::vector<std::uint32_t>& crcs);

// The range that was asked for, out of the blocks that it touches. Errors: also invalid - these
// cannot be those blocks.
Result<Piece> checked_piece(const FragmentReadRequest& request, Buffer blocks,
                            const std::vector<std::uint32_t>& crcs);

}  // namespace penstock
