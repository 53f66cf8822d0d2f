#include "gateway/s3/utf8.h"

#include <doctest/doctest.h>

namespace penstock {

TEST_CASE("text is UTF-8 or it is not") {
  for (const char* good :
       {"", "a", "\x01\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbd", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "gr\xc3\xbc\xc3\x9f"}) {
    CAPTURE(good);
    CHECK(is_utf8(good));
  }
  for (const char* bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xed\xbf\xbf", "\xe2\x82", "\xef\xbf\xbe", "\xef\xbf\xbf", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xc3\xa9\xa9"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_utf8(bad));
  }
}

TEST_CASE("text is never cut within a character") {
  const std::string_view text = "a\xc3\xa9\xe2\x82\xac";
  CHECK(utf8_front(text, 6) == text);
  CHECK(utf8_front(text, 5) == "a\xc3\xa9");
  CHECK(utf8_front(text, 3) == "a\xc3\xa9");
  CHECK(utf8_front(text, 2) == "a");
  CHECK(utf8_front(text, 0).empty());
  CHECK(utf8_front("\x80\x80\x80", 2).empty());
}

}  // namespace penstock
