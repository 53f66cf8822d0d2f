#include "gateway/s3/http_date.h"

#include <doctest/doctest.h>

namespace penstock {
namespace {
WallTime at(std::int64_t seconds, int micros = 0) {
  return WallTime{std::chrono::seconds{seconds} + std::chrono::microseconds{micros}};
}
}  // namespace

TEST_CASE("a date is written as headers and lists want it") {
  CHECK(http_date(at(784111777)) == "Sun, 06 Nov 1994 08:49:37 GMT");
  CHECK(http_date(at(0, 999999)) == "Thu, 01 Jan 1970 00:00:00 GMT");
  CHECK(http_date(at(951782400)) == "Tue, 29 Feb 2000 00:00:00 GMT");
  CHECK(iso_date(at(784111777, 4321)) == "1994-11-06T08:49:37.004Z");
  CHECK(iso_date(at(4102444799, 999999)) == "2099-12-31T23:59:59.999Z");
}

TEST_CASE("the three forms of a date are one instant") {
  for (const char* text : {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                           "Sun Nov  6 08:49:37 1994"}) {
    CAPTURE(text);
    REQUIRE(parse_http_date(text).has_value());
    CHECK(*parse_http_date(text) == at(784111777));
  }
  CHECK(parse_http_date("Wed Nov 16 08:49:37 1994") == at(784975777));
}

TEST_CASE("the zones of mail count") {
  const std::pair<const char*, std::int64_t> rows[] = {
      {"+0000", 0}, {"-0000", 0},     {"UTC", 0},       {"UT", 0},
      {"GMT", 0},   {"+0200", -7200}, {"-0730", 27000}, {"+0001", -60}};
  for (const auto& [zone, shift] : rows) {
    CAPTURE(zone);
    const auto time = parse_http_date(std::string("Sun, 06 Nov 1994 08:49:37 ") + zone);
    REQUIRE(time.has_value());
    CHECK(*time == at(784111777 + shift));
  }
  for (const char* zone : {"+000", "+00:00", "0000", "+2400", "+0060", "+-100", "GMT+0000", "Z"}) {
    CAPTURE(zone);
    CHECK_FALSE(parse_http_date(std::string("Sun, 06 Nov 1994 08:49:37 ") + zone).has_value());
  }
}

TEST_CASE("what is no date is not guessed at") {
  for (const char* text :
       {"", "yesterday", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Now 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, -6 Nov 1994 08:49:37 GMT", "Sun, 30 Feb 2000 00:00:00 GMT", "Sun"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_http_date(text).has_value());
  }
}

TEST_CASE("whatever is written is read back") {
  for (std::int64_t seconds = 0; seconds < 4'000'000'000; seconds += 86'399 * 97) {
    CHECK(parse_http_date(http_date(at(seconds))) == at(seconds));
  }
}

}  // namespace penstock
