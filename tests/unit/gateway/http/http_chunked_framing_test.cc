#include <doctest/doctest.h>

#include <string>

#include "gateway/http/chunked_framing.h"

using namespace penstock;
using namespace std::string_literals;

namespace {
struct Decoded {
  bool valid = true;
  bool finished = false;
  std::string payload;
  std::size_t used = 0;
};
// Decodes `wire`, given in pieces of `step` bytes.
Decoded unwrap(std::string_view wire, std::size_t step) {
  ChunkedFraming framing;
  Decoded result;
  while (result.used < wire.size() && !framing.finished()) {
    const std::string_view piece = wire.substr(result.used, step);
    if (framing.payload_left() > 0) {
      const auto take = std::min<std::uint64_t>(framing.payload_left(), piece.size());
      result.payload += piece.substr(0, take);
      framing.take_payload(take);
      result.used += take;
      continue;
    }
    auto used = framing.feed(piece);
    if (!used) {
      result.valid = false;
      return result;
    }
    result.used += used.value();
  }
  result.finished = framing.finished();
  return result;
}
}  // namespace

TEST_CASE("payload comes out of chunked coding whatever the cuts") {
  const std::string wire = "5\r\nhello\r\n00A\r\n0123456789\r\nb\r\nabcdefghijk\r\n0\r\n\r\nGET";
  for (std::size_t step = 1; step <= wire.size(); ++step) {
    const Decoded result = unwrap(wire, step);
    CHECK(result.valid);
    CHECK(result.finished);
    CHECK(result.payload == "hello0123456789abcdefghijk");
    CHECK(result.used == wire.size() - 3);  // the next request stays
  }
}

TEST_CASE("chunked coding that parsers differ on is refused") {
  for (const std::string& wire : {"5;a=b\r\nhello\r\n"s,
                                  "5;\r\nhello\r\n"s,
                                  "5 \r\nhello\r\n"s,
                                  " 5\r\nhello"s,
                                  "\r\n"s,
                                  "5\nhello"s,
                                  "5\r\nhello\n"s,
                                  "5\r\nhelloX\r\n"s,
                                  "5\r\nhello\r\n\r\n"s,
                                  "-1\r\n"s,
                                  "0x10\r\n"s,
                                  "+5\r\n"s,
                                  "g\r\n"s,
                                  "00000000000000001\r\n"s,
                                  "ffffffffffffffff\r\n"s,
                                  "8000000000000000\r\n"s,
                                  "5\rX"s,
                                  "0\r\nX-Trailer: a\r\n\r\n"s,
                                  "0\r\n\nGET"s,
                                  "0;x\r\n\r\n"s}) {
    CAPTURE(wire);
    for (std::size_t step = 1; step <= wire.size(); ++step) CHECK_FALSE(unwrap(wire, step).valid);
  }
}

TEST_CASE("a chunked body is not finished before its last line end") {
  const std::string wire = "1\r\na\r\n0\r\n\r\n";
  for (std::size_t length = 0; length < wire.size(); ++length) {
    const Decoded result = unwrap(std::string_view(wire).substr(0, length), length + 1);
    CHECK(result.valid);
    CHECK_FALSE(result.finished);
  }
}
