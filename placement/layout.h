// Where each byte of a blob lies. Pure arithmetic: blob offset <-> (stripe, slot, offset in the
// slot's fragment).
//
// A blob of `size` bytes is cut into stripes of k units of `unit` bytes, each stripe with m units
// of parity. The last stripe shrinks its unit to ceil(rest / k) rounded up to a block. Slot s holds
// in stripe t the unit (s + t) mod (k + m): units 0 … k-1 are data, the others parity, so parity
// load is even. A fragment is the concatenation of its slot's units, stripe after stripe; trailing
// zeros of data units of the last stripe are not stored (a data unit there may be short or empty);
// parity units of the last stripe are as long as the longest data unit, rounded up to a block.
// k = 1 is replication: every slot of a stripe has the same bytes.
#pragma once
#include <cstdint>
#include <vector>

#include "penstock/result.h"

namespace penstock {

struct BlobShape {
  std::uint32_t k = 1;
  std::uint32_t m = 0;
  std::uint64_t unit_bytes = 512 << 10;  // a multiple of the block
  std::uint64_t size_bytes = 0;
  std::uint32_t slots() const { return k + m; }
  auto operator<=>(const BlobShape&) const = default;
};

class Layout {
 public:
  // Errors: invalid - k = 0, too many slots, a unit that is no multiple of a block, size over
  // 5 GiB.
  static Result<Layout> make(BlobShape shape);
  const BlobShape& shape() const { return shape_; }
  std::uint64_t stripe_count() const;                    // 0 for an empty blob
  std::uint64_t unit_bytes(std::uint64_t stripe) const;  // the last stripe's is smaller
  std::uint32_t slot_of_unit(std::uint64_t stripe, std::uint32_t unit) const;
  std::uint32_t unit_of_slot(std::uint64_t stripe, std::uint32_t slot) const;
  // Stored bytes of unit `unit` of `stripe` (data: without trailing zeros; parity: the stripe's
  // unit).
  std::uint64_t stored_bytes(std::uint64_t stripe, std::uint32_t unit) const;
  std::uint64_t fragment_bytes(std::uint32_t slot) const;
  // Where the unit of `stripe` begins in its slot's fragment.
  std::uint64_t fragment_offset(std::uint64_t stripe) const;

  // A run of bytes of the blob that lies in one unit.
  struct Run {
    std::uint64_t stripe = 0;
    std::uint32_t unit = 0;  // data unit, 0 … k-1
    std::uint32_t slot = 0;
    std::uint64_t unit_offset = 0;
    std::uint64_t fragment_offset = 0;  // in the slot's fragment
    std::uint64_t blob_offset = 0;
    std::uint64_t length = 0;
  };
  // The run that holds byte `offset`, cut at `end`. Pre: offset < end <= size.
  // Walk: offset += run.length.
  Run run_at(std::uint64_t offset, std::uint64_t end) const;

 private:
  BlobShape shape_;
};

}  // namespace penstock
