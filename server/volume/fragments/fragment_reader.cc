#include "server/volume/fragments/fragment_reader.h"

#include <algorithm>
#include <cstring>

#include "penstock/limits.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

using limits::kBlockBytes;

// Below, a copy is as cheap as pinned pages, and cheaper than sendfile.
constexpr std::size_t kUncopiedBytesMin = 128 * limits::kKiB;
constexpr std::uint64_t kStepBytes =
    limits::kColumnBytes;  // read and checked while in the L2 cache

// What a step of a read comes to. A value of its own because "would block" is no error.
enum class Step : std::uint8_t { done, would_block };

class Reading {
 public:
  Reading(const FragmentHandle& handle, bool may_block) : handle_(handle), may_block_(may_block) {}

  // Fills `target` with the blocks that begin at `offset` of the data and checks them.
  // Pre: offset is a multiple of the block, the end is too, or is the end of the data.
  Result<Step> blocks(std::uint64_t offset, MutBytes target) const {
    const std::uint64_t at = handle_.row.offset + offset;
    File& file = handle_.file->file();
    std::optional<Result<std::size_t>> got;
    if (may_block_) {
      got = file.read_at(at, target);
    } else {
      got = file.read_now(at, target);
    }
    if (!got) return Step::would_block;
    if (!*got) return std::move(*got).error();
    if (**got != target.size()) return corrupt(offset / kBlockBytes, "is cut short");
    return check(offset / kBlockBytes, target);
  }

 private:
  Result<Step> check(std::uint64_t block, ConstBytes bytes) const {
    for (; !bytes.empty(); ++block) {
      const ConstBytes one = bytes.first(std::min<std::size_t>(bytes.size(), kBlockBytes));
      const auto crc = fragment_block_crc(handle_.id.write_id, handle_.id.slot, block, one);
      const bool same = crc == handle_.table[static_cast<std::size_t>(block)];
      if (!same && holds(Rule::block_checksum)) {
        return corrupt(block, "has a wrong checksum");
      }
      bytes = bytes.subspan(one.size());
    }
    return Step::done;
  }
  Error corrupt(std::uint64_t block, std::string_view what) const {
    return fail(Errc::corrupt, "block " + std::to_string(block) + " of fragment " +
                                   to_string(handle_.id) + " " + std::string(what));
  }

  const FragmentHandle& handle_;
  bool may_block_;
};

// The blocks that a range touches, in bytes of the data.
struct Span {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::size_t size() const { return static_cast<std::size_t>(to - from); }
};
Span blocks_of(const FragmentHandle& handle, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t end = (offset + length + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  return {offset / kBlockBytes * kBlockBytes, std::min(end, handle.row.data_bytes)};
}

std::vector<std::uint32_t> crcs_of(const FragmentHandle& handle, Span span) {
  const auto first = handle.table.begin() + static_cast<std::ptrdiff_t>(span.from / kBlockBytes);
  const auto count = (span.size() + kBlockBytes - 1) / kBlockBytes;
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

// Checks a range without keeping its bytes: they are in the page cache then.
Result<Step> verify_in_place(const Reading& reading, Span span, BufferPool& buffers) {
  const Buffer step = buffers.get(std::min<std::size_t>(span.size(), kStepBytes));
  while (span.from < span.to) {
    const std::size_t length = std::min<std::size_t>(span.size(), kStepBytes);
    TRY(outcome, reading.blocks(span.from, step.mutable_bytes().first(length)));
    if (outcome == Step::would_block) return outcome;
    span.from += length;
  }
  return Step::done;
}

// Reads exactly [offset, offset + target.size()): whole blocks straight into `target`, the first
// and the last, where the range covers them in part, by way of a block of their own.
Result<Step> read_exactly(const Reading& reading, const FragmentHandle& handle,
                          std::uint64_t offset, MutBytes target, BufferPool& buffers) {
  const Buffer edge = buffers.get(kBlockBytes);
  while (!target.empty()) {
    const Span block = blocks_of(handle, offset, 1);
    const std::size_t skip = static_cast<std::size_t>(offset - block.from);
    std::size_t length = std::min(block.size() - skip, target.size());
    if (length == block.size()) {
      // All whole blocks from here on at once.
      const std::uint64_t end = offset + target.size();
      const bool to_the_end = end == handle.row.data_bytes;
      length =
          static_cast<std::size_t>((to_the_end ? end : end / kBlockBytes * kBlockBytes) - offset);
      TRY(outcome, reading.blocks(offset, target.first(length)));
      if (outcome == Step::would_block) return outcome;
    } else {
      TRY(outcome, reading.blocks(block.from, edge.mutable_bytes().first(block.size())));
      if (outcome == Step::would_block) return outcome;
      std::memcpy(target.data(), edge.data() + skip, length);
    }
    offset += length;
    target = target.subspan(length);
  }
  return Step::done;
}

// Into memory: the blocks of `span`, or exactly the range where they would not fit.
Result<Step> read_copy(const Reading& reading, const FragmentHandle& handle, Span span,
                       const FragmentReadRequest& request, BufferPool& buffers, Piece& piece) {
  if (request.with_checksums || span.size() <= limits::kPieceBytes) {
    const std::uint64_t from = request.with_checksums ? span.from : request.offset;
    piece.memory = buffers.get(span.size());
    piece.memory_offset = static_cast<std::size_t>(from - span.from);
    return reading.blocks(span.from, piece.memory.mutable_bytes());
  }
  // With the edges it would not fit into a pooled buffer.
  piece.memory = buffers.get(piece.length);
  return read_exactly(reading, handle, request.offset, piece.memory.mutable_bytes(), buffers);
}

// Checks the blocks and pins their pages at once. Without pages in the piece it could not.
Result<Step> pin_checked(const Reading& reading, const FragmentHandlePtr& handle, Span span,
                         std::uint64_t offset, bool may_block, BufferPool& buffers, Piece& piece) {
  const std::uint64_t at = handle->row.offset + offset;
  auto pages = PinnedPages::fits(at, piece.length) ? PinnedPages::make() : nullptr;
  if (!pages) return Step::done;
  TRY(outcome, verify_in_place(reading, span, buffers));
  if (outcome == Step::would_block) return outcome;
  if (!handle->file->file().pin(*pages, at, piece.length, may_block)) return Step::done;
  piece.pages = std::move(pages);
  piece.keepalive = handle;  // the space is not reused while the bytes are on their way
  return Step::done;
}

}  // namespace

Result<> check_range(const FragmentHandle& handle, const FragmentReadRequest& request) {
  const std::uint64_t size = handle.row.data_bytes;
  const bool fits = request.offset <= size && request.length <= size - request.offset;
  if (fits && request.length > 0 && request.length <= FragmentReadRequest::kBytesMax) return {};
  return fail(Errc::invalid, "range " + std::to_string(request.offset) + "+" +
                                 std::to_string(request.length) + " of fragment " +
                                 to_string(handle.id) + " with " + std::to_string(size) + " bytes");
}

std::optional<Result<Piece>> read_verified(const FragmentHandlePtr& handle,
                                           const FragmentReadRequest& request, BufferPool& buffers,
                                           bool may_block) {
  const Reading reading(*handle, may_block);
  const Span span = blocks_of(*handle, request.offset, request.length);
  const bool whole = request.with_checksums;
  const std::uint64_t from = whole ? span.from : request.offset;
  const int descriptor = handle->file->file().descriptor();
  Piece piece;
  piece.length = whole ? span.size() : static_cast<std::size_t>(request.length);
  if (whole) piece.block_crcs = crcs_of(*handle, span);
  const bool uncopied =
      request.file_allowed && piece.length >= kUncopiedBytesMin && descriptor >= 0;
  Result<Step> outcome = Step::done;
  if (uncopied && whole) {
    outcome = verify_in_place(reading, span, buffers);
    piece.fd = descriptor;
    piece.file_offset = handle->row.offset + from;
    piece.keepalive = handle;  // the space is not reused while the bytes are on their way
  } else if (uncopied) {
    outcome = pin_checked(reading, handle, span, from, may_block, buffers, piece);
  }
  const bool has_bytes = piece.pages || piece.fd >= 0;
  if (outcome && *outcome == Step::done && !has_bytes) {
    outcome = read_copy(reading, *handle, span, request, buffers, piece);
  }
  if (!outcome) return Result<Piece>(std::move(outcome).error());
  if (*outcome == Step::would_block) return std::nullopt;
  return Result<Piece>(std::move(piece));
}

}  // namespace penstock
