// Bytes as text: base64 (RFC 4648 section 4, padded) and hexadecimal.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "penstock/types.h"

namespace penstock {

std::string base64_encode(ConstBytes bytes);
inline std::string base64_encode(std::string_view raw) { return base64_encode(as_bytes(raw)); }
// Strict: whole groups of four, padding only at the end, unused bits zero, no blanks. One value has
// one encoding.
std::optional<std::string> base64_decode(std::string_view text);

// Lower case.
std::string hex_encode(ConstBytes bytes);
inline std::string hex_encode(std::string_view raw) { return hex_encode(as_bytes(raw)); }
// Both cases; an even number of digits, nothing else.
std::optional<std::string> hex_decode(std::string_view text);
// The value of one hexadecimal digit of either case; -1 for any other character.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace penstock
