// UTF-8: what S3 takes for a name, and what XML can hold. Pure functions. Source: RFC 3629; XML
// 1.0, 2.2.
#pragma once
#include <cstddef>
#include <string_view>

namespace penstock {

// Length of the sequence of two to four bytes at the front of `text`; 0 if there is none. Overlong
// forms, surrogates, U+FFFE and U+FFFF are none: XML cannot hold them.
std::size_t utf8_length(std::string_view text);
// All of `text` is ASCII or such sequences.
bool is_utf8(std::string_view text);
// The longest front of `text` of at most `bytes_max` bytes that cuts no sequence in two.
std::string_view utf8_front(std::string_view text, std::size_t bytes_max);

}  // namespace penstock
