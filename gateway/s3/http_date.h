// Dates as HTTP headers and S3's XML write them. Pure functions of the time; no clock, no locale.
// Source: RFC 9110, section 5.6.7; S3 API Reference (LastModified of lists).
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/types.h"

namespace penstock {

// "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(WallTime time);
// "1994-11-06T08:49:37.000Z".
std::string iso_date(WallTime time);
// The three forms a recipient must take: IMF-fixdate, RFC 850 and asctime; the first two also with
// the zones of mail ("+0000", "-0000", "+0200", "UTC", "UT"), as Python writes dates. nullopt: none
// of them.
std::optional<WallTime> parse_http_date(std::string_view text);
// What an HTTP date can say of `time`: whole seconds.
inline WallTime whole_seconds(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time);
}

}  // namespace penstock
