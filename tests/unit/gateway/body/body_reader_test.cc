#include "gateway/body/body_reader.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/body/body_reading.h"

namespace penstock {
namespace {

using namespace testing;

TEST_CASE("a plain body is read whole, with its MD5") {
  for (const std::size_t size : {0, 1, 1000, 65'536, 200'001}) {
    for (const std::size_t step : {1, 1000, 1 << 20}) {
      if (step == 1 && size > 1000) continue;
      const std::string text = random_text(size);
      FakeRawBody raw(text);
      raw.step(step);
      const Outcome outcome = read_body(put_request(), plain(), raw);
      CHECK(outcome.code == "ok");
      CHECK(outcome.payload == text);
      CHECK(outcome.md5 == md5(as_bytes(text)));
      CHECK(outcome.checksum.algorithm.empty());
      CHECK(outcome.checksum.raw.empty());
    }
  }
}

TEST_CASE("each read fills its buffer as far as the body goes") {
  FakeRawBody raw(random_text(100'000));
  raw.step(10);
  CHECK(read_body(put_request(), plain(), raw, 1 << 16).reads == 3);
}

TEST_CASE("accepting a body sends the interim answer") {
  FakeRawBody raw("");
  const auto body = make_body_reader(put_request(), plain(), raw);
  REQUIRE(body);
  boost::asio::io_context io;
  std::optional<Result<>> result;
  run(io, (*body)->accept(), result);
  CHECK(raw.continues() == 1);
}

TEST_CASE("a body must hash to the signed SHA-256") {
  const std::string text = random_text(70'000);
  PayloadAuth auth;
  auth.mode = PayloadMode::hashed;
  auth.sha256 = sha256(as_bytes(text));
  FakeRawBody right(text);
  CHECK(read_body(put_request(), auth, right).code == "ok");
  std::string other = text;
  other.back() ^= 1;
  FakeRawBody wrong(other);
  const Outcome outcome = read_body(put_request(), auth, wrong);
  CHECK(outcome.code == "XAmzContentSHA256Mismatch");
  CHECK_FALSE(outcome.error.close);
  REQUIRE(outcome.error.details.size() == 2);
  CHECK(outcome.error.details[0].second == hex_of(sha256(as_bytes(text))));
  CHECK(outcome.error.details[1].second == hex_of(sha256(as_bytes(other))));
  // Also where the client named the same algorithm for its checksum.
  FakeRawBody named(other);
  const auto request =
      put_request({{"x-amz-checksum-sha256", checksum_text(ChecksumAlgorithm::sha256, other)}});
  CHECK(read_body(request, auth, named).code == "XAmzContentSHA256Mismatch");
}

TEST_CASE("Content-MD5 is verified") {
  const std::string text = "hello";
  const auto request = [](std::string value) { return put_request({{"content-md5", value}}); };
  const std::pair<std::string, std::string> rows[] = {
      {"XUFAKrxLKna5cZ2REBfFkg==", "ok"},
      {"1B2M2Y8AsgTpgAmY7PhCfg==", "BadDigest"},
      {"", "InvalidDigest"},
      {"YWJyYWNhZGFicmE=", "InvalidDigest"},
      {"XUFAKrxLKna5cZ2REBfFkg", "InvalidDigest"},
      {"garbage", "InvalidDigest"},
  };
  for (const auto& [value, code] : rows) {
    CAPTURE(value);
    FakeRawBody raw(text);
    const Outcome outcome = read_body(request(value), plain(), raw);
    CHECK(outcome.code == code);
    CHECK_FALSE(outcome.error.close);
  }
}

TEST_CASE("all five checksums are verified from a header") {
  const std::string text = random_text(10'000);
  for (const ChecksumAlgorithm algorithm : kChecksumAlgorithms) {
    const std::string right = checksum_text(algorithm, text);
    FakeRawBody raw(text);
    const Outcome outcome = read_body(put_request({{header_name(algorithm), right}}), plain(), raw);
    CHECK(outcome.code == "ok");
    CHECK(outcome.checksum.algorithm == to_string(algorithm));
    CHECK(outcome.checksum.raw == checksum_of(algorithm, as_bytes(text)));
    FakeRawBody changed(random_text(10'000, 6));
    const Outcome bad = read_body(put_request({{header_name(algorithm), right}}), plain(), changed);
    CHECK(bad.code == "BadDigest");
    CHECK(bad.error.message == "The " + std::string(s3_name(algorithm)) +
                                   " you specified did not match the calculated checksum.");
  }
}

TEST_CASE("a checksum that the operation asks for is computed, unless the client named one") {
  const std::string text = "some bytes";
  FakeRawBody raw(text);
  Outcome outcome = read_body(put_request(), plain(), raw, 4, ChecksumAlgorithm::crc64nvme);
  CHECK(outcome.checksum.algorithm == "crc64nvme");
  CHECK(outcome.checksum.raw == checksum_of(ChecksumAlgorithm::crc64nvme, as_bytes(text)));
  FakeRawBody named(text);
  outcome = read_body(
      put_request({{"x-amz-checksum-sha1", checksum_text(ChecksumAlgorithm::sha1, text)}}), plain(),
      named, 4, ChecksumAlgorithm::crc64nvme);
  CHECK(outcome.checksum.algorithm == "sha1");
}

TEST_CASE("checksum headers that make no sense are refused before the body is read") {
  const std::string crc = checksum_text(ChecksumAlgorithm::crc32, "x");
  const std::pair<Pairs, std::string> rows[] = {
      {{{"x-amz-checksum-crc32", crc}}, "ok"},
      {{{"x-amz-checksum-crc32", crc}, {"x-amz-sdk-checksum-algorithm", "CRC32"}}, "ok"},
      {{{"x-amz-checksum-algorithm", "SHA1"}, {"x-amz-checksum-type", "COMPOSITE"}}, "ok"},
      {{{"x-amz-checksum-crc32", crc}, {"x-amz-sdk-checksum-algorithm", "SHA1"}}, "InvalidRequest"},
      {{{"x-amz-sdk-checksum-algorithm", "CRC32"}}, "InvalidRequest"},
      {{{"x-amz-checksum-crc32", ""}}, "InvalidRequest"},
      {{{"x-amz-checksum-crc32", "AAAA"}}, "InvalidRequest"},
      {{{"x-amz-checksum-crc32", "not base64"}}, "InvalidRequest"},
      {{{"x-amz-checksum-sha256", crc}}, "InvalidRequest"},
      {{{"x-amz-checksum-crc32", crc}, {"x-amz-checksum-crc32", crc}}, "InvalidRequest"},
      {{{"x-amz-checksum-crc32", crc}, {"x-amz-checksum-crc32c", crc}}, "InvalidRequest"},
      {{{"x-amz-checksum-sha512", "AAAA"}}, "InvalidRequest"},
      {{{"x-amz-checksum-md5", "AAAA"}}, "InvalidRequest"},
      {{{"x-amz-checksum-xxhash64", "AAAA"}}, "InvalidRequest"},
      {{{"x-amz-trailer", "x-amz-checksum-crc32"}}, "InvalidRequest"},
  };
  for (const auto& [headers, code] : rows) {
    CAPTURE(headers.front().first);
    FakeRawBody raw("x");
    const Outcome outcome = read_body(put_request(headers), plain(), raw);
    CHECK(outcome.code == code);
    CHECK(outcome.reads == (code == "ok" ? 2 : 0));
  }
  FakeRawBody raw("x");
  CHECK(read_body(put_request({{"x-amz-checksum-crc32", "?"}}), plain(), raw).error.message ==
        "Value for x-amz-checksum-crc32 header is invalid.");
}

TEST_CASE("checksum headers of a Complete and of bodyless requests are not of the body") {
  const Pairs headers = {{"x-amz-checksum-crc32", "AAAAAA=="}, {"content-md5", "bad"}};
  S3Request complete = put_request({headers[0]});
  complete.method = "POST";
  complete.query = {{"uploadId", "u"}};
  FakeRawBody xml("<x/>");
  const Outcome outcome = read_body(complete, plain(), xml);
  CHECK(outcome.code == "ok");
  CHECK(outcome.checksum.algorithm.empty());
  for (const std::string method : {"GET", "HEAD", "DELETE"}) {
    S3Request request = put_request(headers);
    request.method = method;
    FakeRawBody empty("");
    CHECK(read_body(request, plain(), empty).code == "ok");
  }
}

TEST_CASE("a length must be known") {
  FakeRawBody raw("hello");
  raw.without_length();
  CHECK(read_body(put_request(), plain(), raw).code == "MissingContentLength");
  for (const PayloadMode mode : {PayloadMode::chunked_unsigned_trailer}) {
    PayloadAuth auth;
    auth.mode = mode;
    FakeRawBody missing("0\r\n\r\n");
    CHECK(read_body(put_request(), auth, missing).code == "MissingContentLength");
    for (const std::string bad : {"", "-1", "+1", "1x", " 1", "0x1", "18446744073709551616"}) {
      CAPTURE(bad);
      FakeRawBody wrong("0\r\n\r\n");
      CHECK(read_body(put_request({{"x-amz-decoded-content-length", bad}}), auth, wrong).code ==
            "InvalidArgument");
    }
  }
}

TEST_CASE("what reads no body needs no length") {
  for (const std::string method : {"GET", "HEAD", "DELETE"}) {
    S3Request request = put_request();
    request.method = method;
    FakeRawBody raw("");
    raw.without_length();
    CHECK(read_body(request, plain(), raw).code == "ok");
  }
  FakeRawBody raw("");
  raw.without_length();
  CHECK(read_body(put_request({{"x-amz-copy-source", "b/s"}}), plain(), raw).code == "ok");
  S3Request create = put_request();
  create.method = "POST";
  create.query = {{"uploads", ""}};
  CHECK(read_body(create, plain(), raw).code == "ok");
  create.query = {{"delete", ""}};
  CHECK(read_body(create, plain(), raw).code == "MissingContentLength");
}

TEST_CASE("a body that stops early is told apart by its reason") {
  const std::pair<Errc, std::string> rows[] = {
      {Errc::aborted, "IncompleteBody"},
      {Errc::timeout, "RequestTimeout"},
      {Errc::invalid, "InvalidRequest"},
      {Errc::shutting_down, "(none)"},
  };
  for (const auto& [errc, code] : rows) {
    FakeRawBody raw("hello");
    raw.announce(10).end_with(errc);
    const Outcome outcome = read_body(put_request(), plain(), raw);
    CHECK(outcome.code == code);
    if (code != "(none)") CHECK(outcome.error.close);
  }
  FakeRawBody raw("hello");
  raw.announce(10);
  CHECK(read_body(put_request(), plain(), raw).code == "IncompleteBody");
}

TEST_CASE("a failed body stays failed") {
  FakeRawBody raw("hello");
  raw.announce(10);
  auto body = make_body_reader(put_request(), plain(), raw);
  REQUIRE(body);
  boost::asio::io_context io;
  for (int i = 0; i < 2; ++i) {
    Outcome outcome;
    std::optional<Result<>> result;
    run(io, read_all(**body, 100, outcome), result);
    CHECK_FALSE(*result);
    CHECK((*body)->failure()->code == S3Code::IncompleteBody);
  }
}

}  // namespace
}  // namespace penstock
