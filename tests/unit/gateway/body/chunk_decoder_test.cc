#include "gateway/body/chunk_decoder.h"

#include <doctest/doctest.h>

#include <functional>

#include "gateway/auth/signature_v4.h"
#include "penstock/limits.h"
#include "tests/unit/gateway/auth/signing.h"

namespace penstock {
namespace {

using namespace testing;

PayloadAuth auth_of(PayloadMode mode) {
  PayloadAuth auth;
  auth.mode = mode;
  if (has_signed_chunks(mode)) {
    auth.signer.emplace(v4_signing_key(kSecretKey, "20130524", "us-east-1", "s3"),
                        std::string(kTimestamp), "20130524/us-east-1/s3/aws4_request", "seed");
  }
  return auth;
}

std::string chunk_size_line(std::size_t size) {
  std::string digits;
  do digits.insert(digits.begin(), "0123456789abcdef"[size % 16]);
  while ((size /= 16) != 0);
  return digits;
}

// What a client sends for these chunks; the last, empty one is added.
struct Encoder {
  explicit Encoder(PayloadMode mode) : auth(auth_of(mode)) {}
  void chunk(std::string_view data) {
    text += chunk_size_line(data.size());
    if (auth.signer) {
      const std::string signature = auth.signer->next_chunk(sha256(as_bytes(data)));
      auth.signer->accept_chunk(sha256(as_bytes(data)), signature);
      text += ";chunk-signature=" + signature;
    }
    text += "\r\n";
    text += data;
    if (!data.empty()) text += "\r\n";
  }
  // `line` without its end.
  void trailer(const std::string& line, std::string_view end = "\r\n") {
    text.append(line).append(end);
    if (!auth.signer) return;
    text += "x-amz-trailer-signature:" + auth.signer->next_trailer(sha256(as_bytes(line + "\n"))) +
            "\r\n";
  }
  PayloadAuth auth;
  std::string text;
};

constexpr PayloadMode kModes[] = {PayloadMode::chunked_unsigned_trailer,
                                  PayloadMode::chunked_signed, PayloadMode::chunked_signed_trailer};
constexpr std::string_view kTrailer = "x-amz-checksum-crc32:AAAAAA==";

std::string encode(PayloadMode mode, std::initializer_list<std::string_view> chunks) {
  Encoder encoder(mode);
  for (const std::string_view chunk : chunks) encoder.chunk(chunk);
  encoder.chunk("");
  if (has_trailer(mode)) encoder.trailer(std::string(kTrailer));
  return encoder.text + "\r\n";
}

struct Outcome {
  std::string payload;
  std::string code;  // "ok", "unfinished", or the S3 code
  std::string trailer;
  std::size_t used = 0;
  bool close = false;
};

// Gives the decoder pieces of at most `step` bytes.
Outcome decode(PayloadMode mode, std::string_view text, std::uint64_t decoded_bytes,
               std::size_t step = ~std::size_t{0},
               ChecksumAlgorithm trailer = ChecksumAlgorithm::crc32) {
  ChunkDecoder decoder(auth_of(mode), decoded_bytes,
                       has_trailer(mode) ? trailer : ChecksumAlgorithm::none);
  Outcome outcome;
  while (!decoder.finished() && outcome.used < text.size()) {
    const std::string_view piece = text.substr(outcome.used, step);
    if (const std::uint64_t left = decoder.data_bytes_left()) {
      const std::string_view data = piece.substr(0, left);
      decoder.take_data(as_bytes(data));
      outcome.payload += data;
      outcome.used += data.size();
      continue;
    }
    const auto taken = decoder.take_framing(as_bytes(piece));
    if (!taken) {
      outcome.code = code_name(taken.error().code);
      outcome.close = taken.error().close;
      return outcome;
    }
    outcome.used += *taken;
  }
  outcome.code = decoder.finished() ? "ok" : "unfinished";
  if (decoder.finished()) outcome.trailer = decoder.trailer_value();
  return outcome;
}

TEST_CASE("a body is decoded alike however it is cut") {
  for (const PayloadMode mode : kModes) {
    const std::string text = encode(mode, {"hello ", "wonderful", " world"});
    for (std::size_t step = 1; step <= text.size(); ++step) {
      const Outcome outcome = decode(mode, text, 21, step);
      CHECK(outcome.code == "ok");
      CHECK(outcome.payload == "hello wonderful world");
      CHECK(outcome.used == text.size());
      CHECK(outcome.trailer == (has_trailer(mode) ? "AAAAAA==" : ""));
    }
  }
}

TEST_CASE("a body that ends early is never finished") {
  for (const PayloadMode mode : kModes) {
    const std::string text = encode(mode, {"hello ", "world"});
    for (std::size_t size = 0; size < text.size(); ++size) {
      CHECK(decode(mode, std::string_view(text).substr(0, size), 11).code == "unfinished");
    }
  }
}

TEST_CASE("an empty body is its last chunk") {
  for (const PayloadMode mode : kModes) CHECK(decode(mode, encode(mode, {}), 0).code == "ok");
}

TEST_CASE("what follows the end is left alone") {
  for (const PayloadMode mode : kModes) {
    const std::string text = encode(mode, {"x"});
    const Outcome outcome = decode(mode, text + "GET / HTTP/1.1\r\n", 1);
    CHECK(outcome.code == "ok");
    CHECK(outcome.used == text.size());
  }
}

TEST_CASE("any changed byte of signed chunks is refused") {
  for (const PayloadMode mode :
       {PayloadMode::chunked_signed, PayloadMode::chunked_signed_trailer}) {
    const std::string text = encode(mode, {"hello ", "world"});
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (const int bit : {1, 32}) {
        std::string changed = text;
        changed[at] = static_cast<char>(changed[at] ^ bit);
        // A name in another case is the same name.
        if (changed.substr(at).starts_with("X-amz") ||
            (text[at] >= 'a' && text[at] <= 'z' && text.find("x-amz") <= at && bit == 32)) {
          continue;
        }
        CAPTURE(at);
        CHECK(decode(mode, changed, 11).code != "ok");
      }
    }
  }
}

TEST_CASE("a wrong signature is told at the end of its chunk, first, middle, last or empty") {
  for (const PayloadMode mode :
       {PayloadMode::chunked_signed, PayloadMode::chunked_signed_trailer}) {
    const std::string text = encode(mode, {"aa", "bb", "cc"});
    std::size_t at = 0;
    for (int chunk = 0; chunk < 4; ++chunk) {
      at = text.find("chunk-signature=", at) + 16;
      std::string changed = text;
      changed[at] = changed[at] == '0' ? '1' : '0';
      const Outcome outcome = decode(mode, changed, 6);
      CHECK(outcome.code == "SignatureDoesNotMatch");
      CHECK(outcome.close);
    }
  }
}

TEST_CASE("chunks cannot be left out, doubled or exchanged") {
  Encoder encoder(PayloadMode::chunked_signed);
  std::vector<std::string> pieces;
  for (const std::string_view data : {"aa", "bb", ""}) {
    encoder.text.clear();
    encoder.chunk(data);
    pieces.push_back(encoder.text);
  }
  const std::vector<std::vector<int>> orders = {{1, 0, 2}, {0, 2}, {1, 2}, {0, 0, 1, 2}, {2}};
  for (const auto& order : orders) {
    std::string text;
    for (const int piece : order) text += pieces[static_cast<std::size_t>(piece)];
    CHECK(decode(PayloadMode::chunked_signed, text + "\r\n", 4).code != "ok");
  }
}

TEST_CASE("malformed framing is refused") {
  const std::string good = "\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";
  const std::pair<std::string, std::string> rows[] = {
      {"5\r\nhello\r\n0" + good, "ok"},
      {"05\r\nhello\r\n0" + good, "ok"},
      {"0000000000000005\r\nhello\r\n0" + good, "ok"},
      {"00000000000000005\r\nhello\r\n0" + good, "InvalidRequest"},
      {"ffffffffffffffff\r\nhello", "IncompleteBody"},
      {"10000000000000000\r\nhello", "InvalidRequest"},
      {"6\r\nhello!\r\n0" + good, "IncompleteBody"},
      {"4\r\nhell\r\n0" + good, "IncompleteBody"},
      {"0" + good, "IncompleteBody"},
      {"-1\r\nhello\r\n0" + good, "InvalidRequest"},
      {"+5\r\nhello\r\n0" + good, "InvalidRequest"},
      {"0x5\r\nhello\r\n0" + good, "InvalidRequest"},
      {" 5\r\nhello\r\n0" + good, "InvalidRequest"},
      {"5 \r\nhello\r\n0" + good, "InvalidRequest"},
      {"\r\nhello\r\n0" + good, "InvalidRequest"},
      {"5\nhello\r\n0" + good, "InvalidRequest"},
      {"5;name=value\r\nhello\r\n0" + good, "InvalidRequest"},
      {"5;chunk-signature=00\r\nhello\r\n0" + good, "InvalidRequest"},
      {"5\r\nhello0" + good, "InvalidRequest"},
      {"5\r\nhelloX\r\n0" + good, "InvalidRequest"},
      {"5\r\nhello\n0" + good, "InvalidRequest"},
      {"5\r\nhello\r\n" + std::string(5000, '0') + "\r\n", "InvalidRequest"},
      {std::string(1 << 20, '0'), "InvalidRequest"},
      {std::string(4096, '\n'), "unfinished"},
      {std::string(4097, '\n'), "InvalidRequest"},
  };
  for (const auto& [text, code] : rows) {
    CAPTURE(text.substr(0, 60));
    for (const std::size_t step : {1, 7, 100'000}) {
      const Outcome outcome = decode(PayloadMode::chunked_unsigned_trailer, text, 5, step);
      CHECK(outcome.code == code);
      CHECK(outcome.close == (code != "ok" && code != "unfinished"));
    }
  }
}

TEST_CASE("signed chunks need their signature and have a bound") {
  const std::pair<std::string, std::string> rows[] = {
      {"5\r\nhello", "InvalidRequest"},
      {"5;chunk-signatures=00\r\nhello", "InvalidRequest"},
      {"5;chunk-signature=\r\nhello\r\n", "SignatureDoesNotMatch"},
      {"1000001;chunk-signature=00\r\n", "InvalidRequest"},
      {"1000000;chunk-signature=00\r\n", "unfinished"},
  };
  for (const auto& [text, code] : rows) {
    CHECK(decode(PayloadMode::chunked_signed, text, 1ull << 32).code == code);
  }
  // An unsigned chunk may be as large as a whole part.
  CHECK(decode(PayloadMode::chunked_unsigned_trailer, "1000001\r\n", 1ull << 32).code ==
        "unfinished");
}

TEST_CASE("the trailer is exactly what was announced") {
  const std::pair<std::string, std::string> rows[] = {
      {"x-amz-checksum-crc32:AAAAAA==\r\n\r\n", "ok"},
      {"X-Amz-Checksum-Crc32: AAAAAA== \r\n\r\n", "ok"},
      {"x-amz-checksum-crc32:\r\n\r\n", "ok"},
      {"\r\n", "MalformedTrailerError"},
      {"x-amz-checksum-crc32\r\n\r\n", "MalformedTrailerError"},
      {"x-amz-checksum-sha1:AAAAAA==\r\n\r\n", "MalformedTrailerError"},
      {"x-amz-meta-a:b\r\n\r\n", "MalformedTrailerError"},
      {"x-amz-checksum-crc32:a\r\nx-amz-checksum-crc32:a\r\n\r\n", "MalformedTrailerError"},
      {"x-amz-checksum-crc32:a\nx\r\n\r\n", "MalformedTrailerError"},
      {"x-amz-checksum-crc32:AAAAAA==\n\r\n\r\n", "ok"},  // minio-go
      {"x-amz-checksum-crc32:a\n\n\r\n\r\n", "MalformedTrailerError"},
      {"x-amz-checksum-crc32:a\r\nx-amz-trailer-signature:0\r\n\r\n", "MalformedTrailerError"},
  };
  for (const auto& [trailer, code] : rows) {
    CAPTURE(trailer);
    const std::string text = "1\r\nx\r\n0\r\n" + trailer;
    CHECK(decode(PayloadMode::chunked_unsigned_trailer, text, 1).code == code);
  }
  CHECK(decode(PayloadMode::chunked_unsigned_trailer, "0\r\n\r\n", 0, 99, ChecksumAlgorithm::none)
            .code == "ok");
  CHECK(decode(PayloadMode::chunked_unsigned_trailer, "0\r\nx-amz-checksum-crc32:a\r\n\r\n", 0, 99,
               ChecksumAlgorithm::none)
            .code == "MalformedTrailerError");
}

TEST_CASE("a signed trailer may end its line with LF CR LF, as minio-go does") {
  constexpr PayloadMode kMode = PayloadMode::chunked_signed_trailer;
  Encoder encoder(kMode);
  encoder.chunk("x");
  encoder.chunk("");
  encoder.trailer(std::string(kTrailer), "\n\r\n");
  const std::string text = encoder.text + "\r\n";
  for (std::size_t step = 1; step < 40; ++step) {
    const Outcome outcome = decode(kMode, text, 1, step);
    CHECK(outcome.code == "ok");
    CHECK(outcome.trailer == "AAAAAA==");
  }
}

TEST_CASE("a trailer's signature is wanted, right, once and last") {
  constexpr PayloadMode kMode = PayloadMode::chunked_signed_trailer;
  Encoder encoder(kMode);
  encoder.chunk("x");
  encoder.chunk("");
  const std::string chunks = encoder.text;
  encoder.text.clear();
  encoder.trailer(std::string(kTrailer));
  const std::string lines = encoder.text;
  const std::string unsigned_line = std::string(kTrailer) + "\r\n";
  std::string wrong = lines;
  wrong[wrong.size() - 3] = wrong[wrong.size() - 3] == '0' ? '1' : '0';
  std::string other_value = lines;
  other_value.replace(other_value.find("AAAA"), 4, "BAAA");
  const std::string signature_only = lines.substr(unsigned_line.size());
  const std::pair<std::string, std::string> rows[] = {
      {lines + "\r\n", "ok"},
      {unsigned_line + "\r\n", "MalformedTrailerError"},
      {wrong + "\r\n", "SignatureDoesNotMatch"},
      {other_value + "\r\n", "SignatureDoesNotMatch"},
      {signature_only + unsigned_line + "\r\n", "SignatureDoesNotMatch"},
      {lines + unsigned_line + "\r\n", "MalformedTrailerError"},
      {lines + signature_only + "\r\n", "MalformedTrailerError"},
  };
  for (const auto& [trailer, code] : rows) CHECK(decode(kMode, chunks + trailer, 1).code == code);
}

}  // namespace
}  // namespace penstock
