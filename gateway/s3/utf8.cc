#include "gateway/s3/utf8.h"

namespace penstock {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    const unsigned code = ((first & 15u) << 12) | ((byte(1) & 63u) << 6) | (byte(2) & 63u);
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code < 0x800 || surrogate || code >= 0xFFFE ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    const unsigned code =
        ((first & 7u) << 18) | ((byte(1) & 63u) << 12) | ((byte(2) & 63u) << 6) | (byte(3) & 63u);
    return code < 0x10000 || code > 0x10FFFF ? 0 : 4;
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const bool ascii = static_cast<unsigned char>(text.front()) < 0x80;
    const std::size_t length = ascii ? 1 : utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view utf8_front(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; };
  while (bytes_max > 0 && follows(text[bytes_max])) --bytes_max;
  return text.substr(0, bytes_max);
}

}  // namespace penstock
