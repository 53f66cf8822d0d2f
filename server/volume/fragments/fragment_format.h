// What a fragment looks like on disk, and the row that says where it is. Pure; frozen,
// golden-tested; server/volume/README.md shows the bytes.
//
// A fragment is one run of 4 KiB granules, in a segment or in a file of its own:
//   data        unchanged; zeros up to the next granule
//   tail        whole granules: the table (CRC32C of each 16 KiB block of the data, little endian),
//               zeros, and in the last 128 bytes the footer
// The footer's CRC covers the whole tail, so that table and footer stand or fall together. After a
// crash the footer decides: a row may be there although its bytes are not.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/limits.h"
#include "penstock/result.h"
#include "penstock/types.h"
#include "penstock/volume_upkeep.h"

namespace penstock {

inline constexpr std::uint64_t kGranuleBytes = 4096;  // what O_DIRECT and the allocation count in
inline constexpr std::size_t kFooterBytes = 128;

// The arithmetic of one fragment. All offsets count from its first byte.
struct FragmentGeometry {
  std::uint64_t data_bytes = 0;
  std::uint64_t blocks() const;
  std::uint64_t tail_offset() const;
  std::uint64_t tail_bytes() const;
  std::uint64_t total_bytes() const { return tail_offset() + tail_bytes(); }
  // Length of block `number`: 16 KiB but for the last one.
  std::size_t block_bytes(std::uint64_t number) const;
};

// Writes the tail of a fragment into `tail`, all of it. Returns the footer's CRC, its digest.
// Pre: table.size() == blocks(), tail.size() == tail_bytes().
std::uint32_t encode_tail(const FragmentId& id, const FragmentGeometry& geometry,
                          const std::vector<std::uint32_t>& table, MutBytes tail);
// Returns the table. Errors: corrupt - this is not the whole tail of this fragment with this
// digest.
Result<std::vector<std::uint32_t>> decode_tail(const FragmentId& id,
                                               const FragmentGeometry& geometry,
                                               std::uint32_t digest, ConstBytes tail);

// On disk, never renumber.
enum class FragmentPlace : std::uint8_t { segment = 1, file = 2 };

// The value of an `x` row.
struct ExtentRow {
  FragmentPlace place = FragmentPlace::segment;
  std::uint32_t segment = 0;  // number of the segment; 0 for a file
  std::uint64_t offset = 0;   // of the fragment in the segment; 0 for a file
  std::uint64_t data_bytes = 0;
  std::uint32_t digest = 0;  // the footer's CRC
  std::uint64_t start = 0;   // which start of the volume committed it ...
  std::uint64_t committed_us =
      0;                  // ... and when, on that start's boot clock: its lease counts from here
  FragmentOwner owner{};  // whom to ask whether the fragment is still referenced (R11)
  auto operator<=>(const ExtentRow&) const = default;
};
std::string encode(const ExtentRow& row);
// Errors: corrupt - unknown version or place, wrong length, unaligned offset.
Result<ExtentRow> decode_extent_row(std::string_view bytes);

// "<write-id>-<slot>-<generation>" in lower-case hex, for messages and file names: 32, 2, 16
// digits.
std::string to_string(const FragmentId& id);
// Errors: invalid - not made by to_string().
Result<FragmentId> parse_fragment_id(std::string_view text);

}  // namespace penstock
