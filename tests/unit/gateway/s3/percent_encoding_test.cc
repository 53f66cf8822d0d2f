#include "gateway/s3/percent_encoding.h"

#include <doctest/doctest.h>

namespace penstock {

TEST_CASE("encoding leaves only unreserved characters and, if asked, the slash") {
  CHECK(percent_encode("a/b c+d%~", true) == "a/b%20c%2Bd%25~");
  CHECK(percent_encode("a/b", false) == "a%2Fb");
  CHECK(percent_encode("\xC3\xA9\x01", true) == "%C3%A9%01");
}

TEST_CASE("decoding happens exactly once and keeps a plus") {
  CHECK(percent_decode("a%2520+b") == "a%20+b");
  CHECK(percent_decode("%c3%A9") == "\xC3\xA9");
  CHECK(percent_decode("") == "");
}

TEST_CASE("a percent without two hexadecimal digits does not decode") {
  for (const char* text : {"%", "%4", "a%zz", "%4g", "%%41"}) {
    CAPTURE(text);
    CHECK_FALSE(percent_decode(text).has_value());
  }
}

TEST_CASE("every byte survives encoding and decoding") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(percent_decode(percent_encode(all, true)) == all);
}

}  // namespace penstock
