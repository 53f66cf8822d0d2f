#include <doctest/doctest.h>

#include "gateway/auth/authenticator.h"
#include "gateway/body/body_reader.h"
#include "tests/unit/gateway/body/body_reading.h"

namespace penstock {
namespace {

using namespace testing;

struct Upload {
  S3Request request;
  std::string wire;
};

struct UploadShape {
  PayloadMode mode;
  std::size_t chunk_bytes = 1000;
  ChecksumAlgorithm trailer = ChecksumAlgorithm::crc32c;
};

std::string hex_size(std::size_t size) {
  std::string digits;
  do digits.insert(digits.begin(), "0123456789abcdef"[size % 16]);
  while ((size /= 16) != 0);
  return digits;
}

Upload make_upload(std::string_view payload, const UploadShape& shape) {
  constexpr std::string_view kNames[] = {
      "", "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
      "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"};
  Upload upload{put_request({{"host", "h"},
                             {"x-amz-content-sha256",
                              std::string(kNames[static_cast<std::size_t>(shape.mode)])},
                             {"x-amz-decoded-content-length", std::to_string(payload.size())}}),
                {}};
  if (has_trailer(shape.mode)) {
    upload.request.headers.emplace_back("x-amz-trailer", header_name(shape.trailer));
    upload.request.headers.emplace_back("x-amz-sdk-checksum-algorithm", s3_name(shape.trailer));
  }
  const std::string seed = sign_header(upload.request);
  ChunkSigner signer(v4_signing_key(kSecretKey, "20130524", "us-east-1", "s3"),
                     std::string(kTimestamp), "20130524/us-east-1/s3/aws4_request", seed);
  std::string& wire = upload.wire;
  for (std::size_t at = 0; at <= payload.size();) {
    const std::string_view chunk = payload.substr(at, shape.chunk_bytes);
    wire += hex_size(chunk.size());
    if (has_signed_chunks(shape.mode)) {
      const std::string signature = signer.next_chunk(sha256(as_bytes(chunk)));
      signer.accept_chunk(sha256(as_bytes(chunk)), signature);
      wire += ";chunk-signature=" + signature;
    }
    wire.append("\r\n").append(chunk);
    if (chunk.empty()) break;
    wire += "\r\n";
    at += chunk.size();
  }
  if (has_trailer(shape.mode)) {
    const std::string line =
        header_name(shape.trailer) + ":" + checksum_text(shape.trailer, payload);
    wire += line + "\r\n";
    if (has_signed_chunks(shape.mode)) {
      wire +=
          "x-amz-trailer-signature:" + signer.next_trailer(sha256(as_bytes(line + "\n"))) + "\r\n";
    }
  }
  wire += "\r\n";
  return upload;
}

PayloadAuth authenticate(const S3Request& request) {
  const auto credentials =
      CredentialStore::make({{std::string(kAccessKey), std::string(kSecretKey), "", "", ""}});
  const SetClock clock(*parse_amz_date(kTimestamp));
  Authenticator authenticator(*credentials, clock, {});
  auto result = authenticator.authenticate(request);
  REQUIRE(result);
  return std::move(result.value().payload);
}

constexpr PayloadMode kChunkedModes[] = {PayloadMode::chunked_unsigned_trailer,
                                         PayloadMode::chunked_signed,
                                         PayloadMode::chunked_signed_trailer};

TEST_CASE("chunked bodies of all modes come out whole, whatever the pieces") {
  for (const PayloadMode mode : kChunkedModes) {
    for (const std::size_t size : {0, 1, 999, 1000, 1001, 50'000}) {
      for (const std::size_t chunk_bytes : {7, 1000, 100'000}) {
        if (chunk_bytes == 7 && size > 2000) continue;
        for (const std::size_t buffer_bytes : {13, 1000, 65'536}) {
          const std::string payload = random_text(size, size + 1);
          const Upload upload = make_upload(payload, {mode, chunk_bytes});
          FakeRawBody raw(upload.wire);
          raw.step(buffer_bytes * 2).without_length();
          const Outcome outcome =
              read_body(upload.request, authenticate(upload.request), raw, buffer_bytes);
          CHECK(outcome.code == "ok");
          CHECK(outcome.payload == payload);
          CHECK(outcome.md5 == md5(as_bytes(payload)));
          CHECK(outcome.checksum.algorithm == (has_trailer(mode) ? "crc32c" : ""));
        }
      }
    }
  }
}

TEST_CASE("a chunked body cut at any byte is incomplete") {
  for (const PayloadMode mode : kChunkedModes) {
    const Upload upload = make_upload(random_text(300), {mode, 128});
    for (std::size_t size = 0; size < upload.wire.size(); ++size) {
      FakeRawBody raw(upload.wire.substr(0, size));
      const Outcome outcome = read_body(upload.request, authenticate(upload.request), raw);
      CHECK(outcome.code == "IncompleteBody");
      CHECK(outcome.error.close);
    }
  }
}

TEST_CASE("bytes after the end of a chunked body are refused") {
  for (const PayloadMode mode : kChunkedModes) {
    const Upload upload = make_upload("hello", {mode});
    for (const std::size_t step : {1, 1000}) {
      FakeRawBody raw(upload.wire + "x");
      raw.step(step);
      const Outcome outcome = read_body(upload.request, authenticate(upload.request), raw);
      CHECK(outcome.code == "InvalidRequest");
      CHECK(outcome.error.close);
    }
  }
}

TEST_CASE("trailers of all algorithms are verified") {
  for (const PayloadMode mode :
       {PayloadMode::chunked_unsigned_trailer, PayloadMode::chunked_signed_trailer}) {
    for (const ChecksumAlgorithm algorithm : kChecksumAlgorithms) {
      const std::string payload = random_text(3000);
      const Upload upload = make_upload(payload, {mode, 1000, algorithm});
      FakeRawBody raw(upload.wire);
      const Outcome outcome = read_body(upload.request, authenticate(upload.request), raw);
      CHECK(outcome.code == "ok");
      CHECK(outcome.checksum.raw == checksum_of(algorithm, as_bytes(payload)));
    }
  }
  const Upload upload = make_upload("hello", {PayloadMode::chunked_unsigned_trailer});
  std::string wire = upload.wire;
  wire.replace(wire.find("hello"), 5, "jello");
  FakeRawBody changed(wire);
  CHECK(read_body(upload.request, authenticate(upload.request), changed).code == "BadDigest");
  wire = upload.wire;
  wire.insert(wire.find(':') + 1, "?");
  FakeRawBody malformed(wire);
  CHECK(read_body(upload.request, authenticate(upload.request), malformed).code ==
        "InvalidRequest");
}

TEST_CASE("trailers must be announced sensibly") {
  PayloadAuth auth;
  auth.mode = PayloadMode::chunked_unsigned_trailer;
  const std::pair<Pairs, std::string> rows[] = {
      {{{"x-amz-trailer", "x-amz-checksum-crc32"}}, "ok"},
      {{{"x-amz-trailer", " X-Amz-Checksum-CRC32 "}}, "ok"},
      {{{"x-amz-trailer", "x-amz-checksum-sha512"}}, "InvalidRequest"},
      {{{"x-amz-trailer", "x-amz-meta-a"}}, "InvalidRequest"},
      {{{"x-amz-trailer", "x-amz-checksum-crc32,x-amz-checksum-sha1"}}, "InvalidRequest"},
      {{{"x-amz-trailer", "x-amz-checksum-crc32"}, {"x-amz-checksum-crc32", "AAAAAA=="}},
       "InvalidRequest"},
      {{{"x-amz-trailer", "x-amz-checksum-sha1"}}, "MalformedTrailerError"},
      {{{"x-other", ""}}, "MalformedTrailerError"},
  };
  for (const auto& [headers, code] : rows) {
    CAPTURE(headers.front().second);
    S3Request request = put_request(headers);
    set_header(request, "x-amz-decoded-content-length", "0");
    FakeRawBody raw("0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
    CHECK(read_body(request, auth, raw).code == code);
  }
}

TEST_CASE("the framing follows the signed hash and no other header") {
  // Content-Encoding: aws-chunked over a plain body.
  FakeRawBody raw("5\r\nhello\r\n0\r\n\r\n");
  const Outcome outcome = read_body(
      put_request({{"content-encoding", "aws-chunked"}, {"x-amz-decoded-content-length", "5"}}),
      plain(), raw);
  CHECK(outcome.code == "ok");
  CHECK(outcome.payload == "5\r\nhello\r\n0\r\n\r\n");
}

TEST_CASE("large bodies are hashed by the service to the same MD5") {
  const std::string payload = random_text(1'000'000);
  boost::asio::io_context io;
  ThreadWorker worker("md5", 1);
  Md5Service service(worker, 1);
  for (const PayloadMode mode : kChunkedModes) {
    const Upload upload = make_upload(payload, {mode, 65'536});
    FakeRawBody raw(upload.wire);
    const Outcome outcome = read_body_on(io, upload.request, authenticate(upload.request), raw,
                                         1 << 18, ChecksumAlgorithm::none, &service);
    CHECK(outcome.code == "ok");
    CHECK(outcome.payload == payload);
    CHECK(outcome.md5 == md5(as_bytes(payload)));
  }
}

}  // namespace
}  // namespace penstock
