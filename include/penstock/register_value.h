// What a register holds: the vocabulary between proposers and acceptors. On disk and on the wire;
// frozen, golden-tested.
//
// A value says which update made it (op-id), what came before (chain) and two opaque strings:
// `summary`, all that a LIST needs, and `payload`, the rest. Acceptors look only at the head;
// server/records knows what summary and payload mean.
#pragma once
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/limits.h"
#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// First byte of a row key. On disk, never renumber.
enum class RowKind : std::uint8_t {
  object = 'o',
  upload = 'u',
  part = 'p',
  hint = 'g',
  extent = 'x',
  meta = 'm',
};

// Which register: an object, an upload or a part of one. `key` is the S3 key, any bytes, 1 … 1,024
// of them.
struct RegisterKey {
  RowKind kind = RowKind::object;  // object, upload or part
  BucketId bucket;
  std::string key;
  std::string upload_id;   // upload, part
  std::uint16_t part = 0;  // part: 1 … 10,000
  auto operator<=>(const RegisterKey&) const = default;
};

// On disk, never renumber. `absent` is never stored: an acceptor without a row answers it.
enum class ValueKind : std::uint8_t {
  absent = 0,
  tombstone = 1,
  object = 2,
  delete_marker = 3,
  bucket = 4,
  upload_open = 5,
  upload_completing = 6,
  upload_reopening = 7,
  upload_done = 8,
  upload_aborted = 9,
  part = 10,
};
inline bool is_live(ValueKind kind) {
  return kind != ValueKind::absent && kind != ValueKind::tombstone;
}

// An upload that may still become an object, or take parts again.
inline bool is_open_upload(ValueKind kind) {
  return kind == ValueKind::upload_open || kind == ValueKind::upload_completing ||
         kind == ValueKind::upload_reopening;
}

struct RegisterValue {
  ValueKind kind = ValueKind::absent;
  OpId op_id;  // zero for a tombstone written by a complete write-back
  // Op-ids of up to 8 predecessors, newest first; a last entry of zero says that the chain reaches
  // back to `absent`.
  boost::container::static_vector<OpId, limits::kChainMax + 1> chain;
  Ballot origin;                   // first ballot of this op-id
  std::uint32_t revision = 0;      // +1 per repair of its locations; op-id and origin stay
  std::uint32_t inline_bytes = 0;  // length of the inline bytes stored beside it, 0 = none
  std::string summary;
  std::string payload;

  // True if this value is, or was built on, the update `id`. The zero id asks for "reaches back to
  // absent".
  bool chain_contains(OpId id) const;
};

// Bytes <-> value. Layout: format version, kind, lengths, bucket id, key, op-ids, origin, revision,
// summary, payload, reserved. The register's own name is in it, so that a row under a wrong key
// shows as corrupt.
std::string encode(const RegisterKey& key, const RegisterValue& value);
// Errors: corrupt - unknown version, bad lengths, another register's name.
Result<RegisterValue> decode_value(const RegisterKey& key, std::string_view bytes);
// Reads only the kind and the summary, for scans; both views point into `bytes`.
struct ValueHead {
  ValueKind kind = ValueKind::absent;
  std::uint32_t inline_bytes = 0;
  OpId op_id;
  std::string_view summary;
};
Result<ValueHead> decode_head(std::string_view bytes);
// The same into its place. False: corrupt.
bool decode_head(std::string_view bytes, ValueHead& into);

}  // namespace penstock
