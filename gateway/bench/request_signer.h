// Signs requests of the load generator: Signature Version 4 for S3, presigned or in the header.
// The signing key is made once; a signature costs about 1 us.
// Thread-safety: const from any thread.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/hmac.h"
#include "penstock/types.h"

namespace penstock {

struct SignerOptions {
  std::string access_key;
  std::string secret_key;
  std::string region = "us-east-1";
  bool in_header = false;  // else presigned, for a day
  bool nothing = false;    // no signature at all
};

// What a signed request consists of: the target of its request line, and header lines, each ended
// by "\r\n". Host is one of them.
using SignedFields = std::span<const std::pair<std::string_view, std::string_view>>;
struct SignedHead {
  std::string target;
  std::string headers;
};

class RequestSigner {
 public:
  // `host` as it stands in the Host header. `now`: signatures are of this time, so a signer serves
  // for some hours (presigned), or for 15 minutes (in the header).
  RequestSigner(SignerOptions options, std::string host, WallTime now);

  // `path` is percent-encoded, as sent; `query` too, sorted by name, every name with a "=".
  // `payload_hash`: 64 hex digits, or UNSIGNED-PAYLOAD, or a STREAMING- word; what differs from
  // UNSIGNED-PAYLOAD is signed in the header, in any case. `more`: headers that have to be signed,
  // too, as every x-amz-* has; they are among those of the result. Pre: only with such a payload
  // hash; names in lower case, sorted, behind "x-amz-date".
  SignedHead sign(std::string_view method, std::string_view path, std::string_view query,
                  std::string_view payload_hash = kUnsigned, SignedFields more = {}) const;

  static constexpr std::string_view kUnsigned = "UNSIGNED-PAYLOAD";

 private:
  SignedHead presign(std::string_view method, std::string_view path, std::string_view query) const;
  std::string signature_of(std::string_view canonical_request) const;

  SignerOptions options_;
  std::string host_;
  std::array<char, 16> timestamp_;
  std::string scope_;
  HmacSha256 key_;
};

}  // namespace penstock
