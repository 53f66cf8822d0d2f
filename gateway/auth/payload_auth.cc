#include "gateway/auth/payload_auth.h"

#include "penstock/text_codec.h"

namespace penstock {
namespace {

std::string hex_of(const Sha256Digest& digest) {
  return hex_encode(std::as_bytes(std::span(digest)));
}

}  // namespace

ChunkSigner::ChunkSigner(HmacSha256 key, std::string timestamp, std::string scope, std::string seed)
    : key_(key),
      timestamp_(std::move(timestamp)),
      scope_(std::move(scope)),
      previous_(std::move(seed)) {}

bool ChunkSigner::accept_chunk(const Sha256Digest& data, std::string_view signature) {
  return accept(next_chunk(data), signature);
}

bool ChunkSigner::accept_trailer(const Sha256Digest& lines, std::string_view signature) {
  return accept(next_trailer(lines), signature);
}

std::string ChunkSigner::next_chunk(const Sha256Digest& data) const {
  // SHA-256 of nothing: the place of headers, which a chunk does not have.
  constexpr std::string_view kNoHeaders =
      "\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  return next("AWS4-HMAC-SHA256-PAYLOAD", kNoHeaders, data);
}

std::string ChunkSigner::next_trailer(const Sha256Digest& lines) const {
  return next("AWS4-HMAC-SHA256-TRAILER", "", lines);
}

std::string ChunkSigner::next(std::string_view kind, std::string_view middle,
                              const Sha256Digest& digest) const {
  std::string text;
  text.reserve(320);
  text.append(kind).append("\n").append(timestamp_).append("\n").append(scope_).append("\n");
  text.append(previous_).append(middle).append("\n").append(hex_of(digest));
  return hex_of(key_.sign(as_bytes(text)));
}

bool ChunkSigner::accept(std::string expected, std::string_view signature) {
  if (!equal_in_constant_time(as_bytes(expected), as_bytes(signature))) return false;
  previous_ = std::move(expected);
  return true;
}

}  // namespace penstock
