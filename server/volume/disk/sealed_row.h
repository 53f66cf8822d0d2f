// The envelope of every row value that is ours: a version and a CRC32C over the row's key and all
// of the value, so that a flipped bit, a cut and a value under another row's key all show.
//   u8 version=1 | u8[3] reserved=0 | u32 crc | payload
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "penstock/result.h"

namespace penstock {

inline constexpr std::size_t kSealBytes = 8;

std::string seal_row(std::string_view row_key, std::string_view payload);
// The same for payloads in two pieces, without joining them first.
std::string seal_row(std::string_view row_key, std::string_view head, std::string_view tail);
// The payload, a view into `value`. Errors: corrupt.
Result<std::string_view> unseal_row(std::string_view row_key, std::string_view value);
// The same without saying why not.
std::optional<std::string_view> payload_of_row(std::string_view row_key, std::string_view value);

}  // namespace penstock
