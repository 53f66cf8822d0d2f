#include "gateway/http/http_guard.h"

#include <doctest/doctest.h>

#include <string>

#include "gateway/http/http_head.h"
#include "penstock/limits.h"

using namespace penstock;
using namespace std::string_literals;

namespace {
// Whether a request with these raw lines (without the final empty line) passes guard and parser: 0,
// or the status of the refusal.
int refusal_of(const std::string& lines, S3Code expected = S3Code::InvalidRequest) {
  const std::string head = lines + "\r\n\r\n";
  HeadScan scan;
  const HeadScan::State state = scan.look_at(head);
  if (state == HeadScan::State::malformed) return 400;
  REQUIRE(state == HeadScan::State::complete);
  const std::string_view bytes = std::string_view(head).substr(0, scan.head_bytes());
  const HeadCheck check = check_head(bytes);
  if (check.refusal) {
    CHECK_FALSE(check.reason.empty());
    CHECK(*check.refusal == expected);
    return http_status(*check.refusal);
  }
  HttpHead parsed;
  return parse_head(bytes, check.framing, parsed) ? 0 : 400;
}
int refusal_of_fields(const std::string& fields, S3Code expected = S3Code::InvalidRequest) {
  return refusal_of("PUT /b/k HTTP/1.1\r\nHost: h" + (fields.empty() ? "" : "\r\n" + fields),
                    expected);
}
}  // namespace

TEST_CASE("a message with one possible framing passes") {
  for (const std::string& fields :
       {""s, "Content-Length: 0"s, "content-length:5"s, "Content-Length:   5 "s,
        "Content-Length: 999999999999999999"s, "Transfer-Encoding: chunked"s,
        "transfer-encoding:Chunked"s, "Expect: 100-Continue"s, "X-Empty:"s, "X: a\tb"s,
        "x-amz-meta-name: gr\xc3\xbc\xc3\x9f"s,
        "Connection: keep-alive, upgrade\r\nUpgrade: h2c"s}) {
    CAPTURE(fields);
    CHECK(refusal_of_fields(fields) == 0);
  }
}

TEST_CASE("a message with two possible framings is refused") {
  for (const std::string& fields : {"Content-Length: 5\r\nTransfer-Encoding: chunked"s,
                                    "Transfer-Encoding: chunked\r\nContent-Length: 5"s,
                                    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"s,
                                    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"s,
                                    "Transfer-Encoding: xchunked"s,
                                    "Transfer-Encoding: chunked\t"s,
                                    "Transfer-Encoding:\tchunked"s,
                                    "Transfer-Encoding: gzip, chunked"s,
                                    "Transfer-Encoding: chunked, identity"s,
                                    "Transfer-Encoding:"s,
                                    "Transfer-Encoding: \"chunked\""s,
                                    "Content-Length: 5\r\nContent-Length: 5"s,
                                    "Content-Length: 5\r\nContent-Length: 6"s,
                                    "Content-Length: +5"s,
                                    "Content-Length: -1"s,
                                    "Content-Length: 5,5"s,
                                    "Content-Length: 5 5"s,
                                    "Content-Length: 0x5"s,
                                    "Content-Length:"s,
                                    "Content-Length: 5\t"s,
                                    "Content-Length: 18446744073709551616"s,
                                    "Content-Length: 9999999999999999999"s}) {
    CAPTURE(fields);
    CHECK(refusal_of_fields(fields) == 400);
  }
  CHECK(refusal_of("PUT /b/k HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked") == 400);
}

TEST_CASE("lines that parsers split differently are refused") {
  for (const std::string& fields :
       {"X: a\nY: b"s, "X: a\rY: b"s, "X: a\r\r\nY: b"s, "X: a\0b"s, "X: a\x01"s, "X: \x7f"s,
        "X: 1234567890\x02"s
        "4567"s,
        "X: a\r\n folded"s, "X: a\r\n\tfolded"s, "X : a"s, "X\t: a"s, " X: a"s, ": a"s, "no colon"s,
        "X(: a"s, "X\0: a"s, "\xc3\xa4: a"s, "Expect: 200-ok"s}) {
    CAPTURE(fields);
    CHECK(refusal_of_fields(fields) == 400);
  }
}

TEST_CASE("a request has exactly one host") {
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nHost: h") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nX: y") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost:") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: a b") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: a/b") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: [::1]:9000") == 0);
  CHECK(refusal_of("GET / HTTP/1.0\r\nX: y") == 0);
}

TEST_CASE("request lines are well formed or refused") {
  struct Row {
    std::string line;
    int refusal;
  };
  const std::string host = "\r\nHost: h:1";
  const Row rows[] = {
      {"GET / HTTP/1.1", 0},
      {"GET /a%2Fb?x=y&z HTTP/1.1", 0},
      {"GET //..//%zz HTTP/1.1", 0},  // the path's own rules come later
      {"OPTIONS * HTTP/1.1", 0},
      {"GET * HTTP/1.1", 400},
      {"GET http://h:1/x HTTP/1.1", 0},
      {"GET HTTP://H:1?x HTTP/1.1", 0},
      {"GET http://other/x HTTP/1.1", 400},
      {"GET http:///x HTTP/1.1", 400},
      {"GET ftp://h:1/x HTTP/1.1", 400},
      {"GET x HTTP/1.1", 400},
      {"CONNECT h:1 HTTP/1.1", 400},
      {"GET  HTTP/1.1", 400},
      {"GET HTTP/1.1", 400},
      {"GET  / HTTP/1.1", 400},
      {"GET / HTTP/1.1 ", 400},
      {"GET / x HTTP/1.1", 400},
      {"GET /\t HTTP/1.1", 400},
      {"GET /#f HTTP/1.1", 400},
      {"GET /\xc3\xa4 HTTP/1.1", 400},
      {"GET / HTTP/1.2", 400},
      {"GET / HTTP/2.0", 400},
      {"GET / http/1.1", 400},
      {"GET /", 400},
      {"G@T / HTTP/1.1", 400},
      {" GET / HTTP/1.1", 400},
      {"BREW / HTTP/1.1", 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    CHECK(refusal_of(row.line + host) == row.refusal);
  }
  CHECK(refusal_of("GET /\0 HTTP/1.1"s + host) == 400);
  CHECK(refusal_of("\r\nGET / HTTP/1.1" + host) == 400);
}

TEST_CASE("too many headers are refused as too large") {
  std::string fields = "A: b";
  for (std::size_t i = 2; i < limits::kHeaderFieldsMax; ++i) fields += "\r\nA: b";
  CHECK(refusal_of_fields(fields) == 0);  // and Host
  CHECK(refusal_of_fields(fields + "\r\nA: b", S3Code::RequestHeaderSectionTooLarge) == 400);
}

TEST_CASE("a head is found wherever its bytes are cut, and what follows it is not looked at") {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";
  const std::string bytes = head + "\nbody \0\r\n\r\n"s;
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      HeadScan scan;
      const bool early = first >= head.size();
      const auto first_state = scan.look_at(std::string_view(bytes).substr(0, first));
      CHECK((first_state == HeadScan::State::complete) == early);
      if (early) continue;
      const auto state = scan.look_at(std::string_view(bytes).substr(0, second));
      CHECK((state == HeadScan::State::complete) == (second >= head.size()));
      if (second >= head.size()) CHECK(scan.head_bytes() == head.size());
    }
  }
}

TEST_CASE("what can never become a head is refused at its first wrong byte") {
  HeadScan scan;
  CHECK(scan.look_at("\x16\x03\x01") == HeadScan::State::malformed);  // a TLS client
  scan = {};
  CHECK(scan.look_at("GET / HTTP/1.1\n") == HeadScan::State::malformed);
}

TEST_CASE("the guard tells the framing") {
  const auto framing = [](const std::string& fields) {
    return check_head("PUT / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n\r\n").framing;
  };
  CHECK(framing("Content-Length: 0012").content_length == 12);
  CHECK_FALSE(framing("A: b").content_length.has_value());
  CHECK(framing("Transfer-Encoding: chunked").chunked);
  CHECK(framing("Expect: 100-CONTINUE").expects_continue);
  CHECK(refusal_of_fields("Expect: 100-continue\r\nExpect: 100-continue") == 400);
  const auto old = check_head("PUT / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
  CHECK_FALSE(old.framing.expects_continue);
}

TEST_CASE("a parsed head holds the fields as they were sent") {
  const std::string bytes =
      "PUT http://h/k?x=%20 HTTP/1.1\r\nHost:h\r\nX-A:  one two \t\r\nx-a: \r\n"
      "Connection: close\r\nContent-Length: 7\r\n\r\n";
  HttpHead head;
  REQUIRE(parse_head(bytes, check_head(bytes).framing, head));
  CHECK(head.method == "PUT");
  CHECK(head.target == "/k?x=%20");
  CHECK_FALSE(head.http_1_0);
  CHECK_FALSE(head.keep_alive);
  REQUIRE(head.fields.size() == 5);
  CHECK(head.fields[1].name == "X-A");
  CHECK(head.fields[1].value == "one two");
  CHECK(head.fields[2].value.empty());
  CHECK(head.field("x-a") == "one two");
  CHECK_FALSE(head.field("absent").has_value());
  CHECK(head.framing.content_length == 7);
}

TEST_CASE("a head that the parser frames differently is refused") {
  const std::string bytes = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n";
  HttpHead head;
  HeadFraming other;
  other.content_length = 8;
  CHECK_FALSE(parse_head(bytes, other, head));
}
