// aws-chunked: the framing that S3 clients put inside the body, to sign it in pieces or to append a
// checksum.
//
//   signed    SIZE;chunk-signature=HEX CRLF bytes CRLF … 0;chunk-signature=HEX CRLF [trailer] CRLF
//   unsigned  SIZE CRLF bytes CRLF … 0 CRLF [trailer] CRLF
//   trailer   x-amz-checksum-crc32c:VALUE CRLF, and if signed: x-amz-trailer-signature:HEX CRLF
//
// A state machine without I/O: the caller gives it framing, and payload apart from it, so that
// payload goes straight to where it is wanted. Payload is handed on before its chunk's signature is
// known: nothing of it may become visible before finished(). Source: S3 API Reference, "Signature
// calculations for the authorization header: transferring a payload in multiple chunks".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/auth/payload_auth.h"
#include "gateway/s3/s3_error.h"
#include "penstock/checksum.h"
#include "penstock/types.h"

namespace penstock {

class ChunkDecoder {
 public:
  // `decoded_bytes`: the payload that the chunks must add up to. `trailer`: the checksum whose
  // header is announced to follow, or none. `auth` must be of a chunked mode.
  ChunkDecoder(PayloadAuth auth, std::uint64_t decoded_bytes, ChecksumAlgorithm trailer);

  // Payload that comes next, before any framing. 0: framing, or the end, is next.
  std::uint64_t data_bytes_left() const { return state_ == State::data ? chunk_left_ : 0; }
  // The bytes just read. Pre: 0 < data.size() <= data_bytes_left().
  void take_data(ConstBytes data);
  // Takes framing from the front of `input`, up to where payload begins or the body ends; returns
  // how much that was. Pre: data_bytes_left() == 0. Errors (S3's, all final): SignatureDoesNotMatch
  // - a chunk's or the trailer's; IncompleteBody - the chunks do not add up; MalformedTrailerError;
  // InvalidRequest - anything else.
  S3Result<std::size_t> take_framing(ConstBytes input);
  // All chunks and the trailer are there and genuine.
  bool finished() const { return state_ == State::finished; }
  // The announced trailer's value, as text. Pre: finished().
  const std::string& trailer_value() const { return trailer_value_; }

 private:
  enum class State : std::uint8_t { size_line, data, data_end, trailer_line, last_line, finished };

  S3Result<> take_line(std::string_view line);
  S3Result<> take_size_line(std::string_view line);
  S3Result<> end_chunk();
  S3Result<> take_trailer_line(std::string_view line);
  S3Result<> end_trailer();

  PayloadAuth auth_;
  std::uint64_t payload_left_;
  ChecksumAlgorithm trailer_;
  State state_ = State::size_line;
  std::uint64_t chunk_left_ = 0;
  std::string line_;             // as far as it came
  Checksummer chunk_sha256_;     // of the open chunk, if signed
  std::string chunk_signature_;  // what the open chunk claims
  std::string trailer_value_;
  bool trailer_found_ = false;
  bool trailer_signed_ = false;
};

}  // namespace penstock
