// Names of the rows in a volume's LevelDB. On disk, never change; golden-tested.
//
//   o  bucket key                  a register: an object; in bucket 0: a bucket or a user
//   u  bucket key 00 upload-id     a register: an upload
//   p  bucket key 00 upload-id part  a register: a part of an upload
//   g  due write-id slot           a removal hint
//   x  write-id slot generation    where a fragment lies
//   m  name                        what the volume knows of itself and of others
//   l  …                           of the log itself: server/volume/rows/database.h
//
// The kind is one byte. Numbers and ids are big endian and of fixed size (bucket, due, generation
// 8, write-id 16, part 2, slot 1), so that rows sort by them. An S3 key may hold any
// byte, 00 too: keys are therefore parsed from their end (an upload-id has exactly 32 bytes).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "penstock/register_value.h"
#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

// An upload-id: so many characters of this alphabet.
inline constexpr std::size_t kUploadIdBytes = 32;
inline constexpr std::string_view kUploadIdAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
bool is_upload_id(std::string_view text);

// The slot of a hint that stands for all fragments of a blob.
inline constexpr std::uint8_t kEverySlot = 0xff;

struct HintRow {
  WallTime due;
  WriteId write_id;
  std::uint8_t slot = kEverySlot;
  auto operator<=>(const HintRow&) const = default;
};
struct MetaRow {
  std::string name;
  auto operator<=>(const MetaRow&) const = default;
};
using RowKey = std::variant<RegisterKey, HintRow, FragmentId, MetaRow>;

// Is this a register that may be stored? Requests from other processes are asked this first.
// Errors: invalid - kind, length of the key or of the upload-id, part number.
Result<> check_register_key(const RegisterKey& key);

// Pre: check_register_key().
std::string register_row_key(const RegisterKey& key);
std::string hint_row_key(const HintRow& row);
std::string extent_row_key(const FragmentId& id);
std::string meta_row_key(std::string_view name);
std::string encode_row_key(const RowKey& key);

// What all rows of one kind in one bucket begin with. Pre: kind is o, u or p.
std::string bucket_row_prefix(RowKind kind, BucketId bucket);
// The S3 key in what follows that prefix; empty if it is too short to hold one.
std::string_view object_key_of(RowKind kind, std::string_view suffix);

// What follows that prefix in the row of an upload.
std::string upload_suffix(std::string_view key, std::string_view upload_id);
// The register whose row has this prefix and suffix. Errors: corrupt - none has.
Result<RegisterKey> register_of_suffix(RowKind kind, BucketId bucket, std::string_view suffix);

// The inverse of the above for any bytes. Errors: corrupt - no row has this name.
Result<RowKey> decode_row_key(const char* bytes, std::size_t size);
inline Result<RowKey> decode_row_key(std::string_view bytes) {
  return decode_row_key(bytes.data(), bytes.size());
}

}  // namespace penstock
