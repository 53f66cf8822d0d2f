#include "server/transport/block_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "penstock/limits.h"

namespace penstock {

using limits::kBlockBytes;

namespace {

// Less than any disk loses at a time.
constexpr std::size_t kFillerBytes = 512;

// Zeros stand in for what a server's disk did not give while it was sent.
bool ends_in_filler(ConstBytes block) {
  const ConstBytes end = block.last(std::min(block.size(), kFillerBytes));
  return std::ranges::all_of(end, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

Result<> check_blocks(const FragmentId& id, std::uint64_t offset, ConstBytes blocks,
                      const std::vector<std::uint32_t>& crcs) {
  if (offset % kBlockBytes != 0 || crcs.size() != (blocks.size() + kBlockBytes - 1) / kBlockBytes) {
    return fail(Errc::corrupt, "wire: not one checksum a block");
  }
  std::uint64_t number = offset / kBlockBytes;
  for (const std::uint32_t expected : crcs) {
    const ConstBytes block = blocks.first(std::min<std::size_t>(blocks.size(), kBlockBytes));
    if (fragment_block_crc(id.write_id, id.slot, number, block) != expected) {
      const std::string name =
          "block " + std::to_string(number) + " of slot " + std::to_string(id.slot);
      if (ends_in_filler(block)) {
        return fail(Errc::io, name + ": the server's disk did not give it");
      }
      return fail(Errc::corrupt, name + " was changed on its way");
    }
    blocks = blocks.subspan(block.size());
    ++number;
  }
  return {};
}

Result<Piece> checked_piece(const FragmentReadRequest& request, Buffer blocks,
                            const std::vector<std::uint32_t>& crcs) {
  const std::uint64_t skip = request.offset % kBlockBytes;
  const std::uint64_t least = skip + request.length;
  // The last block may be short: at the end of the fragment, which is not known here.
  const std::uint64_t most = (least + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  if (blocks.size() < least || blocks.size() > most) {
    return fail(Errc::invalid, "wire: other blocks than those asked for");
  }
  CHECK_OK(check_blocks(request.id, request.offset - skip, blocks.bytes(), crcs));
  Piece piece;
  piece.memory = std::move(blocks);
  piece.memory_offset = static_cast<std::size_t>(skip);
  piece.length = static_cast<std::size_t>(request.length);
  return piece;
}

}  // namespace penstock
