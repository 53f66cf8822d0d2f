// The one way in: every request passes here before its operation runs, and what comes out is the
// Principal without which no operation runs. What is not known for certain is denied.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gateway/auth/credentials.h"
#include "gateway/auth/payload_auth.h"
#include "gateway/auth/signature_v2.h"
#include "gateway/auth/signature_v4.h"
#include "gateway/s3/request.h"
#include "gateway/s3/s3_error.h"
#include "penstock/runtime.h"
#include "penstock/thread_parts.h"

namespace penstock {

// Which signature let a request in: it decides which query parameters are covered.
enum class SignedBy : std::uint8_t { v4_header, v4_query, v2_header, v2_query };

struct AuthResult {
  Principal principal;
  PayloadAuth payload;
  SignedBy by = SignedBy::v4_header;
};

// Signing keys that have verified a signature: one per access key, day, region. Each saves five
// HMACs. Each thread has those of its own requests. Bounded: when full it forgets all of them.
// Thread-safety: any thread.
class SigningKeyCache {
 public:
  explicit SigningKeyCache(std::size_t entries_max) : entries_max_(entries_max) {}
  // The key kept for this account under `credential` (ACCESS_KEY/DAY/REGION/SERVICE/aws4_request).
  std::optional<HmacSha256> find(std::string_view credential, const Account& account) const;
  void keep(std::string_view credential, std::shared_ptr<const Account> account,
            const HmacSha256& key);
  std::size_t size() const;
  void clear();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  struct Entry {
    std::shared_ptr<const Account>
        account;  // shared: an entry is good only for the account it was made for
    HmacSha256 key;
  };
  struct Part {
    mutable std::mutex mutex;  // guards entries
    std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries;
  };
  std::size_t entries_max_;  // of a part
  ThreadParts<Part> parts_;
};

// Ownership: borrows the store and the clock. Thread-safety: any thread.
class Authenticator {
 public:
  struct Options {
    std::string region = "us-east-1";
    bool strict_region = false;  // else any region in a credential's scope will do
    bool signature_v2 = true;    // false: InvalidRequest, as in S3's newer regions
  };
  Authenticator(const CredentialStore& credentials, const Clock& clock, Options options);

  // Signature Version 4 in the header or the query, Version 2 in both. Nobody is let in without a
  // signature. Pre: method, path, query, headers, bucket and key of `request` are set. Errors
  // (S3's): AccessDenied, AuthorizationHeaderMalformed, AuthorizationQueryParametersError,
  // InvalidAccessKeyId, InvalidArgument, InvalidRequest, RequestTimeTooSkewed,
  // SignatureDoesNotMatch; InvalidToken - a session token, since there are no sessions. Cost: about
  // 1.6 us for a presigned GET whose signing key is kept.
  S3Result<AuthResult> authenticate(const S3Request& request);
  // After the accounts have changed: nothing made from a secret that was taken back stays.
  void forget_signing_keys() { signing_keys_.clear(); }

 private:
  S3Result<AuthResult> authenticate_v4(const S3Request& request, const V4Claim& claim);
  S3Result<HmacSha256> verify_v4(const S3Request& request, const V4Claim& claim,
                                 const std::shared_ptr<const Account>& account,
                                 std::string_view payload_hash);
  S3Result<AuthResult> authenticate_v2(const S3Request& request, const V2Claim& claim);
  S3Result<> check_skew(const S3Request& request, WallTime time) const;
  S3Result<> check_window(WallTime from, WallTime to) const;
  S3Result<std::shared_ptr<const Account>> account_of(std::string_view access_key) const;

  const CredentialStore& credentials_;
  const Clock& clock_;
  const Options options_;
  SigningKeyCache signing_keys_;
};

}  // namespace penstock
