// Percent-encoding of URLs (RFC 3986, section 2.1): bytes <-> text. Pure functions.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

// Every byte but A-Z a-z 0-9 - . _ ~ and, if `keep_slash`, "/" becomes %XX. "+" becomes %2B and a
// blank %20, so that decoders that read plus as a blank agree with those that do not.
std::string percent_encode(std::string_view bytes, bool keep_slash);
// Decodes exactly once; "+" stands for itself. nullopt: a "%" that two hex digits do not follow.
std::optional<std::string> percent_decode(std::string_view text);

}  // namespace penstock
