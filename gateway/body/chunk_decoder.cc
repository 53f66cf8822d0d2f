#include "gateway/body/chunk_decoder.h"

#include <algorithm>
#include <cstring>

#include "gateway/s3/http_text.h"
#include "penstock/assert.h"
#include "penstock/limits.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

constexpr std::string_view kSignature = ";chunk-signature=";
constexpr std::string_view kTrailerSignature = "x-amz-trailer-signature";
constexpr std::size_t kSizeDigitsMax = 16;

// What follows cannot be told apart from framing any more, so the connection ends with each of
// these.
S3Error broken(S3Code code, std::string message) {
  S3Error error = s3_error(code, std::move(message));
  error.close = true;
  return error;
}

S3Error bad_chunk(std::string what) {
  return broken(S3Code::InvalidRequest, "The aws-chunked body is malformed: " + std::move(what));
}

S3Error wrong_length() {
  return broken(S3Code::IncompleteBody,
                "You did not provide the number of bytes specified by the "
                "x-amz-decoded-content-length HTTP header");
}

Sha256Digest digest_of(const Checksummer& checksummer) {
  const std::string raw = checksummer.raw();
  Sha256Digest digest;
  std::memcpy(digest.data(), raw.data(), digest.size());
  return digest;
}

}  // namespace

ChunkDecoder::ChunkDecoder(PayloadAuth auth, std::uint64_t decoded_bytes, ChecksumAlgorithm trailer)
    : auth_(std::move(auth)), payload_left_(decoded_bytes), trailer_(trailer) {
  PENSTOCK_ASSERT(is_chunked(auth_.mode));
  PENSTOCK_ASSERT(has_signed_chunks(auth_.mode) == auth_.signer.has_value());
}

void ChunkDecoder::take_data(ConstBytes data) {
  PENSTOCK_ASSERT(!data.empty() && data.size() <= data_bytes_left());
  chunk_sha256_.update(data);
  chunk_left_ -= data.size();
  payload_left_ -= data.size();
  if (chunk_left_ == 0) state_ = State::data_end;
}

S3Result<std::size_t> ChunkDecoder::take_framing(ConstBytes input) {
  PENSTOCK_ASSERT(data_bytes_left() == 0);
  const std::string_view text = as_text(input);
  std::size_t taken = 0;
  while (state_ != State::data && state_ != State::finished && taken < text.size()) {
    const std::size_t line_feed = text.find('\n', taken);
    const std::size_t end = line_feed == std::string_view::npos ? text.size() : line_feed + 1;
    if (line_.size() + (end - taken) > limits::kChunkLineBytesMax) {
      return bad_chunk("a line is longer than 4096 bytes");
    }
    line_.append(text, taken, end - taken);
    taken = end;
    // A line ends with CR LF; a lone LF belongs to it (see take_trailer_line) or breaks it.
    if (!line_.ends_with("\r\n")) continue;
    const std::string line = std::exchange(line_, {});
    CHECK_OK(take_line(std::string_view(line).substr(0, line.size() - 2)));
  }
  return taken;
}

S3Result<> ChunkDecoder::take_line(std::string_view line) {
  switch (state_) {
    case State::size_line:
      return take_size_line(line);
    case State::data_end:
      if (!line.empty()) return bad_chunk("a chunk is longer than its size");
      return end_chunk();
    case State::trailer_line:
      return line.empty() ? end_trailer() : take_trailer_line(line);
    case State::last_line:
      if (!line.empty()) return bad_chunk("bytes follow the last chunk");
      state_ = State::finished;
      return {};
    case State::data:
    case State::finished:
      break;
  }
  PENSTOCK_ASSERT(false && "no line is wanted here");
  return {};
}

S3Result<> ChunkDecoder::take_size_line(std::string_view line) {
  const std::size_t digits = std::min(line.find(';'), line.size());
  if (digits == 0 || digits > kSizeDigitsMax) return bad_chunk("a chunk has no valid size");
  std::uint64_t size = 0;
  for (const char c : line.substr(0, digits)) {
    if (hex_digit(c) < 0) return bad_chunk("a chunk has no valid size");
    size = size << 4 | static_cast<std::uint64_t>(hex_digit(c));
  }
  const std::string_view extension = line.substr(digits);
  if (has_signed_chunks(auth_.mode)) {
    if (!extension.starts_with(kSignature)) return bad_chunk("a chunk has no signature");
    if (size > limits::kSignedChunkBytesMax) return bad_chunk("a chunk is larger than 16 MiB");
    chunk_signature_ = extension.substr(kSignature.size());
    chunk_sha256_ = Checksummer(ChecksumAlgorithm::sha256);
  } else if (!extension.empty()) {
    return bad_chunk("a chunk has an extension");
  }
  if (size > payload_left_) return wrong_length();
  if (size == 0) return end_chunk();
  chunk_left_ = size;
  state_ = State::data;
  return {};
}

// Of a chunk with payload, after it; of the last, empty one, after its size.
S3Result<> ChunkDecoder::end_chunk() {
  const bool is_last = state_ == State::size_line;
  if (auth_.signer && !auth_.signer->accept_chunk(digest_of(chunk_sha256_), chunk_signature_)) {
    return broken(S3Code::SignatureDoesNotMatch, {});
  }
  if (!is_last) {
    state_ = State::size_line;
    return {};
  }
  if (payload_left_ != 0) return wrong_length();
  state_ = has_trailer(auth_.mode) ? State::trailer_line : State::last_line;
  return {};
}

S3Result<> ChunkDecoder::take_trailer_line(std::string_view line) {
  const S3Error malformed_trailer = broken(S3Code::MalformedTrailerError, {});
  // S3's documents end the line before the trailer's signature with LF CR LF, and minio-go ends
  // every trailer so.
  if (line.ends_with('\n')) line.remove_suffix(1);
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || trailer_signed_) return malformed_trailer;
  if (std::any_of(line.begin(), line.end(), http_text::is_control)) return malformed_trailer;
  const std::string name = http_text::lower(line.substr(0, colon));
  const std::string_view value = http_text::trim(line.substr(colon + 1), " ");
  if (auth_.signer && name == kTrailerSignature) {
    const std::string lines =
        trailer_found_
            ? "x-amz-checksum-" + std::string(to_string(trailer_)) + ":" + trailer_value_ + "\n"
            : std::string();
    if (!auth_.signer->accept_trailer(sha256(as_bytes(lines)), value)) {
      return broken(S3Code::SignatureDoesNotMatch, {});
    }
    trailer_signed_ = true;
    return {};
  }
  const bool announced = trailer_ != ChecksumAlgorithm::none &&
                         name == "x-amz-checksum-" + std::string(to_string(trailer_));
  if (!announced || trailer_found_) return malformed_trailer;
  trailer_found_ = true;
  trailer_value_ = value;
  return {};
}

S3Result<> ChunkDecoder::end_trailer() {
  const bool is_announced = trailer_ != ChecksumAlgorithm::none;
  if (trailer_found_ != is_announced || trailer_signed_ != auth_.signer.has_value()) {
    return broken(S3Code::MalformedTrailerError, {});
  }
  state_ = State::finished;
  return {};
}

}  // namespace penstock
