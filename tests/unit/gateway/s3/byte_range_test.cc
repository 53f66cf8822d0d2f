#include "gateway/s3/byte_range.h"

#include <doctest/doctest.h>

#include <ostream>

#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {
namespace {
constexpr auto kWhole = RangeKind::whole;
constexpr auto kPart = RangeKind::part;
constexpr auto kUnsatisfied = RangeKind::unsatisfied;
}  // namespace

TEST_CASE("a range header selects what RFC 9110 says") {
  struct Row {
    const char* header;
    std::uint64_t size;
    RangeKind kind;
    ByteRange range;
  };
  const Row rows[] = {
      {"bytes=4-7", 11, kPart, {4, 4}},
      {"bytes=4-", 11, kPart, {4, 7}},
      {"bytes=-7", 11, kPart, {4, 7}},
      {"bytes=-70", 11, kPart, {0, 11}},
      {"bytes=0-0", 1, kPart, {0, 1}},
      {"bytes=0-10", 11, kPart, {0, 11}},
      {"bytes=0-8388607", 11, kPart, {0, 11}},
      {"bytes=3-18446744073709551614", 11, kPart, {3, 8}},     // s3torchconnector's "to the end"
      {"bytes=3-99999999999999999999999", 11, kPart, {3, 8}},  // beyond 64 bits
      {" bytes= 4 - 7 ", 11, kPart, {4, 4}},
      {"bytes=11-", 11, kUnsatisfied, {}},
      {"bytes=40-50", 11, kUnsatisfied, {}},
      {"bytes=99999999999999999999999-", 11, kUnsatisfied, {}},
      {"bytes=-0", 11, kUnsatisfied, {}},
      {"bytes=0-8388607", 0, kUnsatisfied, {}},  // how CRT asks for an empty object
      {"bytes=-5", 0, kUnsatisfied, {}},
      {"bytes=7-4", 11, kWhole, {}},
      {"bytes=0-2,3-5", 11, kWhole, {}},
      {"bytes=", 11, kWhole, {}},
      {"bytes=-", 11, kWhole, {}},
      {"bytes=a-b", 11, kWhole, {}},
      {"bytes=+1-2", 11, kWhole, {}},
      {"items=0-1", 11, kWhole, {}},
      {"", 11, kWhole, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.header);
    const RangeAnswer answer = parse_range(row.header, row.size);
    CHECK(static_cast<int>(answer.kind) == static_cast<int>(row.kind));
    if (row.kind == kPart) {
      CHECK(answer.range.first == row.range.first);
      CHECK(answer.range.length == row.range.length);
    }
  }
}

TEST_CASE("a copy range is exact or refused") {
  const auto range = parse_copy_range("bytes=2-4", 5);
  REQUIRE(range);
  CHECK(*range == ByteRange{2, 3});
  for (const char* header : {"0-2", "bytes=0", "bytes=hello-world", "bytes=0-bar", "bytes=hello-",
                             "bytes=0-2,3-5", "bytes=-3", "bytes=3-", "bytes=3-2", ""}) {
    CAPTURE(header);
    CHECK(code_of(parse_copy_range(header, 5)) == S3Code::InvalidArgument);
  }
  CHECK(code_of(parse_copy_range("bytes=0-5", 5)) == S3Code::InvalidArgument);
  CHECK(code_of(parse_copy_range("bytes=0-0", 0)) == S3Code::InvalidArgument);
}

TEST_CASE("416 tells the size, zero included") {
  const S3Error error = range_not_satisfiable("bytes=0-1", 0);
  CHECK(http_status(error.code) == 416);
  const auto xml = error_xml(error, "/b/k", "r", "h");
  CHECK(xml.find("<ActualObjectSize>0</ActualObjectSize>") != std::string::npos);
  CHECK(xml.find("<RangeRequested>bytes=0-1</RangeRequested>") != std::string::npos);
  REQUIRE(error.headers.size() == 1);
  CHECK(error.headers[0].second == "bytes */0");
  CHECK(content_range({4, 4}, 11) == "bytes 4-7/11");
}

}  // namespace penstock
