#include "gateway/body_reader.h"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <random>

#include "gateway/authenticator.h"
#include "penstock/checksum.h"
#include "signing.h"

namespace penstock {
namespace {

using namespace testing;

// A body that comes in pieces of random or fixed sizes.
class FakeRawBody final : public RawBody {
 public:
  explicit FakeRawBody(std::string text) : text_(std::move(text)) {}
  std::optional<std::uint64_t> content_length() const override {
    return chunked_ ? std::nullopt
                    : std::optional<std::uint64_t>(announced_.value_or(text_.size()));
  }
  bool chunked() const override { return chunked_; }
  Task<std::size_t> read(MutBytes buffer) override {
    CHECK_FALSE(buffer.empty());
    if (error_ && at_ >= text_.size()) co_return fail(*error_, "fake");
    const std::size_t count = std::min({buffer.size(), text_.size() - at_, 1 + random_() % step_});
    std::copy_n(as_bytes(text_).begin() + static_cast<std::ptrdiff_t>(at_), count, buffer.begin());
    at_ += count;
    co_return count;
  }
  Task<> send_continue() override {
    ++continues_;
    co_return Result<>{};
  }
  FakeRawBody& step(std::size_t step) { return step_ = step, *this; }
  FakeRawBody& without_length() { return chunked_ = true, *this; }
  FakeRawBody& announce(std::uint64_t length) { return announced_ = length, *this; }
  FakeRawBody& end_with(Errc error) { return error_ = error, *this; }
  int continues() const { return continues_; }

 private:
  std::string text_;
  std::size_t at_ = 0;
  std::size_t step_ = 1 << 20;
  bool chunked_ = false;
  std::optional<std::uint64_t> announced_;
  std::optional<Errc> error_;
  int continues_ = 0;
  std::mt19937_64 random_{1};
};

struct Outcome {
  std::string code;  // "ok" or S3's
  std::string payload;
  Md5Digest md5{};
  BodyReader::Checksum checksum;
  S3Error error;
  std::size_t reads = 0;
};

Task<> read_all(BodyReader& body, std::size_t buffer_bytes, Outcome& outcome) {
  std::vector<std::byte> buffer(buffer_bytes);
  while (true) {
    auto count = co_await body.read(buffer);
    if (!count) co_return std::move(count).error();
    ++outcome.reads;
    if (*count == 0) co_return Result<>{};
    outcome.payload += as_text(ConstBytes(buffer).first(*count));
    // Whoever still read these bytes now would read others.
    std::fill(buffer.begin(), buffer.end(), std::byte{0xee});
  }
}

void run(boost::asio::io_context& io, Task<> task, std::optional<Result<>>& result) {
  boost::asio::co_spawn(io.get_executor(), std::move(task),
                        [&result](std::exception_ptr error, Result<> outcome) {
                          REQUIRE(error == nullptr);
                          result = std::move(outcome);
                        });
  io.run();
  io.restart();
}

Outcome read_body(const S3Request& request, PayloadAuth auth, FakeRawBody& raw,
                  std::size_t buffer_bytes = 1 << 16,
                  ChecksumAlgorithm asked = ChecksumAlgorithm::none, Md5Service* md5 = nullptr) {
  Outcome outcome;
  auto body = make_body_reader(request, std::move(auth), raw, md5);
  if (!body) {
    outcome.error = body.error();
    outcome.code = code_name(body.error().code);
    return outcome;
  }
  (*body)->compute(asked);
  boost::asio::io_context io;
  std::optional<Result<>> result;
  run(io, read_all(**body, buffer_bytes, outcome), result);
  REQUIRE(result);
  if (!*result) {
    const auto failure = (*body)->failure();
    outcome.code = failure ? std::string(code_name(failure->code)) : "(none)";
    if (failure) outcome.error = *failure;
    return outcome;
  }
  CHECK_FALSE((*body)->failure());
  CHECK(outcome.payload.size() == (*body)->length());
  outcome.code = "ok";
  outcome.md5 = (*body)->md5();
  outcome.checksum = (*body)->checksum();
  return outcome;
}

S3Request put_request(Pairs headers = {}) {
  S3Request request = make_request("PUT", "/b/k", {}, std::move(headers));
  request.bucket = "b";
  request.key = "k";
  return request;
}

PayloadAuth plain() { return {}; }

std::string random_text(std::size_t size, std::uint64_t seed = 5) {
  std::mt19937_64 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string checksum_text(ChecksumAlgorithm algorithm, std::string_view text) {
  return base64_encode(checksum_of(algorithm, as_bytes(text)));
}

std::string header_name(ChecksumAlgorithm algorithm) {
  return "x-amz-checksum-" + std::string(to_string(algorithm));
}

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

TEST_CASE("a body that stops early is told apart by its reason") {
  const std::pair<Errc, std::string> rows[] = {
      {Errc::aborted, "IncompleteBody"},
      {Errc::timeout, "RequestTimeout"},
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

// ---- aws-chunked, from the client's signature to the verified end

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

TEST_CASE("large bodies are hashed by the service to the same MD5") {
  const std::string payload = random_text(1'000'000);
  ThreadWorker worker("md5", 1);
  Md5Service service(worker, 1);
  for (const PayloadMode mode : kChunkedModes) {
    const Upload upload = make_upload(payload, {mode, 65'536});
    FakeRawBody raw(upload.wire);
    const Outcome outcome = read_body(upload.request, authenticate(upload.request), raw, 1 << 18,
                                      ChecksumAlgorithm::none, &service);
    CHECK(outcome.code == "ok");
    CHECK(outcome.payload == payload);
    CHECK(outcome.md5 == md5(as_bytes(payload)));
  }
}

}  // namespace
}  // namespace penstock
