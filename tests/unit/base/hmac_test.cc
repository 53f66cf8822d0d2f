#include "penstock/hmac.h"

#include <doctest/doctest.h>

#include <string>

#include "penstock/text_codec.h"

namespace penstock {
namespace {

std::string hex_of(const auto& digest) { return hex_encode(std::as_bytes(std::span(digest))); }

TEST_CASE("SHA-256 gives the values of FIPS 180-4") {
  CHECK(hex_of(sha256(as_bytes(""))) ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex_of(sha256(as_bytes("abc"))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("HMAC-SHA-256 gives the values of RFC 4231") {
  struct Row {
    std::string key, message, hex;
  };
  const Row rows[] = {
      {std::string(20, '\x0b'), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
  };
  for (const Row& row : rows) {
    CHECK(hex_of(HmacSha256(as_bytes(row.key)).sign(as_bytes(row.message))) == row.hex);
  }
}

TEST_CASE("one HMAC key signs many messages") {
  const HmacSha256 key(as_bytes("Jefe"));
  const Sha256Digest first = key.sign(as_bytes("a"));
  CHECK(key.sign(as_bytes("b")) != first);
  CHECK(key.sign(as_bytes("a")) == first);
}

TEST_CASE("HMAC-SHA-1 gives the values of RFC 2202") {
  CHECK(hex_of(hmac_sha1(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))) ==
        "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
}

TEST_CASE("a difference in any byte or in length is seen") {
  CHECK(equal_in_constant_time(as_bytes("abc"), as_bytes("abc")));
  CHECK(equal_in_constant_time({}, {}));
  for (const std::string_view other : {"xbc", "axc", "abx", "ab", "abcd", ""}) {
    CHECK_FALSE(equal_in_constant_time(as_bytes("abc"), as_bytes(other)));
  }
}

}  // namespace
}  // namespace penstock
