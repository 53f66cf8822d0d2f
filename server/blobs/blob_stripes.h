// Bytes of a blob as they arrive -> pieces of fragments: cut at units, coded in 64 KiB columns and
// checksummed while they are hot. Memory only; the caller bounds how many pieces are under way.
// Pieces of one slot come out in the order of its fragment. Thread-safety: one executor.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/types.h"
#include "placement/codec.h"
#include "placement/layout.h"

namespace penstock {

// How many pieces have left the builder and are still in memory. Thread-safety: the counters from
// any thread; `given_back` is set before the first piece leaves and called on any thread.
struct PiecesUnderWay {
  std::atomic<std::size_t> data = 0;
  std::atomic<std::size_t> parity = 0;
  std::function<void()> given_back;  // after a counter went down
};

// The next bytes of one slot's fragment: at most 512 KiB, whole blocks unless they are its last.
struct FragmentPiece {
  std::uint32_t slot = 0;
  Buffer data;
  std::vector<std::uint32_t> crcs;
  std::shared_ptr<const void> credit;  // the piece counts as under way while copies of this live
};

class StripeBuilder {
 public:
  // Pre: layout.shape().size_bytes > 0; `codec` is of its shape.
  StripeBuilder(Layout layout, WriteId write_id, std::shared_ptr<const Codec> codec,
                BufferPool& buffers);

  std::uint64_t bytes_left() const { return layout_.shape().size_bytes - offset_; }
  bool at_piece_start() const { return !piece_; }
  bool at_stripe_start() const { return !piece_ && run_.length == 0; }
  PiecesUnderWay& under_way() { return *under_way_; }
  const PiecesUnderWay& under_way() const { return *under_way_; }
  std::size_t parity_pieces_per_stripe() const;

  // Where the next bytes go. Pre: bytes_left() > 0.
  Buffer space();
  // `count` bytes of space() are filled. Returns the pieces that are complete now.
  std::vector<FragmentPiece> filled(std::size_t count);

 private:
  void begin_stripe();
  void begin_piece();
  void code(std::size_t begin, std::size_t end);
  void end_piece(std::vector<FragmentPiece>& done);
  void end_stripe(std::vector<FragmentPiece>& done);
  std::vector<std::uint32_t> crcs_of(std::uint32_t slot, std::uint64_t fragment_offset,
                                     ConstBytes bytes) const;
  std::shared_ptr<const void> credit(std::atomic<std::size_t> PiecesUnderWay::*counter) const;

  Layout layout_;
  WriteId write_id_;
  std::shared_ptr<const Codec> codec_;
  BufferPool& buffers_;
  std::shared_ptr<PiecesUnderWay> under_way_ = std::make_shared<PiecesUnderWay>();
  std::uint64_t offset_ = 0;        // bytes of the blob that have arrived
  Layout::Run run_;                 // the unit being filled; length 0 = between stripes
  Buffer piece_;                    // empty = between pieces
  std::uint64_t piece_offset_ = 0;  // of the piece in its unit
  std::size_t filled_ = 0;          // bytes of the piece that have arrived
  std::size_t coded_ = 0;           // ... that are coded and checksummed
  std::vector<std::vector<std::uint32_t>> piece_crcs_;  // one list, or one per replica
  std::vector<std::vector<Buffer>> parity_;             // by unit, then by piece; of this stripe
};

}  // namespace penstock
