// What an authenticated request says of its body: how it is framed, and what each piece of it must
// hash or sign to.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/hmac.h"

namespace penstock {

// By the signed x-amz-content-sha256; no other header decides.
enum class PayloadMode : std::uint8_t {
  hashed,                    // 64 hex digits: the SHA-256 of the whole body
  plain,                     // UNSIGNED-PAYLOAD
  chunked_unsigned_trailer,  // STREAMING-UNSIGNED-PAYLOAD-TRAILER
  chunked_signed,            // STREAMING-AWS4-HMAC-SHA256-PAYLOAD
  chunked_signed_trailer,    // STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER
};
constexpr bool is_chunked(PayloadMode mode) {
  return mode >= PayloadMode::chunked_unsigned_trailer;
}
constexpr bool has_signed_chunks(PayloadMode mode) { return mode >= PayloadMode::chunked_signed; }
constexpr bool has_trailer(PayloadMode mode) {
  return mode == PayloadMode::chunked_unsigned_trailer ||
         mode == PayloadMode::chunked_signed_trailer;
}

// The chain of signatures that begins with the request's own: each covers one chunk and the
// signature before it. Source: S3 API Reference, "Transferring payload in multiple chunks".
class ChunkSigner {
 public:
  // `timestamp` as 20130524T000000Z; `scope` as 20130524/us-east-1/s3/aws4_request; `seed` in hex,
  // of the request.
  ChunkSigner(HmacSha256 key, std::string timestamp, std::string scope, std::string seed);
  // Whether `signature` (hex) is that of the next chunk, whose data have this SHA-256. Moves on if
  // it is.
  bool accept_chunk(const Sha256Digest& data, std::string_view signature);
  // The same for the trailer: `lines` is the SHA-256 of its "name:value\n" lines.
  bool accept_trailer(const Sha256Digest& lines, std::string_view signature);
  // The signature that the next chunk must carry, in hex.
  std::string next_chunk(const Sha256Digest& data) const;
  std::string next_trailer(const Sha256Digest& lines) const;

 private:
  std::string next(std::string_view kind, std::string_view middle,
                   const Sha256Digest& digest) const;
  bool accept(std::string expected, std::string_view signature);

  HmacSha256 key_;
  std::string timestamp_;
  std::string scope_;
  std::string previous_;
};

struct PayloadAuth {
  PayloadMode mode = PayloadMode::plain;
  Sha256Digest sha256{};              // hashed: what the body must hash to
  std::optional<ChunkSigner> signer;  // modes with signed chunks
};

}  // namespace penstock
