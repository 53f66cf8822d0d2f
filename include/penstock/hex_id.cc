#include "penstock/hex_id.h"

#include "penstock/text_codec.h"

namespace penstock {

std::string hex_id(std::uint64_t id) {
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; id >>= 4) text[i] = "0123456789abcdef"[id & 15];
  return text;
}

std::optional<std::uint64_t> number_of_hex_id(std::string_view text) {
  std::uint64_t number = 0;
  for (const char c : text) {
    const int digit = hex_digit(c);
    if (digit < 0) return std::nullopt;
    number = number << 4 | static_cast<std::uint64_t>(digit);
  }
  if (text != hex_id(number)) return std::nullopt;
  return number;
}

}  // namespace penstock
