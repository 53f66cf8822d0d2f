// Character classes and small comparisons of HTTP. Source: RFC 9110 5.6.2, RFC 5234.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace penstock::http_text {

namespace detail {
constexpr std::array<bool, 256> make_token_table() {
  std::array<bool, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~"))
    table[static_cast<unsigned char>(c)] = true;
  return table;
}
inline constexpr std::array<bool, 256> kToken = make_token_table();
}  // namespace detail

inline bool is_token_char(char c) { return detail::kToken[static_cast<unsigned char>(c)]; }
inline bool is_token(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_token_char(c); });
}
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}
inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }
inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}
// `name` is in lower case already.
inline bool equals_lower(std::string_view text, std::string_view name) {
  return text.size() == name.size() && std::equal(text.begin(), text.end(), name.begin(),
                                                  [](char a, char b) { return lower(a) == b; });
}
inline bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}
inline std::string_view trim(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// No control characters but HTAB. Eight bytes per step: heads are mostly long values.
inline bool is_field_value(std::string_view text) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  constexpr std::uint64_t kTops = 0x8080808080808080u;
  const auto plain = [](char c) { return !is_control(c) || c == '\t'; };
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    const std::uint64_t below_blank = (word - kOnes * 0x20) & ~word & kTops;
    const std::uint64_t flipped = word ^ (kOnes * 0x7f);
    const std::uint64_t is_delete = (flipped - kOnes) & ~flipped & kTops;
    if ((below_blank | is_delete) == 0) continue;  // both may only err towards the slow look
    if (!std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at),
                     text.begin() + static_cast<std::ptrdiff_t>(at + 8), plain)) {
      return false;
    }
  }
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), plain);
}

}  // namespace penstock::http_text
