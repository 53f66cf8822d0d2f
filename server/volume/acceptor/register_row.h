// A register as one volume holds it: the row in memory and its bytes in LevelDB.
// Payload of the sealed row: ballot 24 | group epoch 8 | partitions 4 | encoded RegisterValue.
// On disk, never change.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/register_value.h"
#include "penstock/volume_client.h"

namespace penstock {

// Immutable once made. A zero ballot: known to be absent.
struct RegisterRow {
  Ballot ballot;
  Epoch epoch;
  std::uint32_t partitions = 1;  // of the bucket
  ValueKind kind = ValueKind::absent;
  OpId op_id;
  std::uint32_t inline_size = 0;  // of the inline row beside it
  SharedBytes value;              // encoded RegisterValue
  SharedBytes inline_bytes;       // if known; null does not mean that there is none

  // What costs memory, for the cache.
  std::size_t bytes() const;
  // `want` decides what of it is in the answer.
  Accepted accepted(ReadWant want) const;
};
// Shared: the cache, the commit queue and answers hold the same row.
using RowPtr = std::shared_ptr<const RegisterRow>;

RowPtr absent_row();
// Errors: invalid - the bytes are no register value.
Result<RowPtr> make_row(Ballot ballot, const Round& round, SharedBytes value,
                        SharedBytes inline_bytes);

std::string encode_row(std::string_view row_key, const RegisterRow& row);
// Errors: corrupt.
Result<RowPtr> decode_row(std::string_view row_key, std::string_view bytes);

// The same without copying the value, for scans; views point into `bytes`.
struct RowHead {
  Ballot ballot;
  std::uint32_t partitions = 1;
  ValueHead value;
  std::string_view encoded;
};
Result<RowHead> decode_row_head(std::string_view row_key, std::string_view bytes);

// Payload of a hint's sealed row: bucket 8 | partitions 4 | ballot 24 | text key | text upload-id |
// text locations. On disk, never change.
std::string encode_hint(std::string_view row_key, const AcceptRequest& request, const Hint& hint);
// Errors: corrupt.
Result<StoredHint> decode_hint(HintName name, std::string_view row_key, std::string_view bytes);

struct RegisterKeyHash {
  std::size_t operator()(const RegisterKey& key) const noexcept;
};

}  // namespace penstock
