#include "gateway/auth/authenticator.h"

#include "gateway/s3/http_date.h"
#include "gateway/s3/http_text.h"
#include "gateway/s3/percent_encoding.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;

constexpr Duration kSkewMax = 15min;
constexpr std::size_t kSigningKeysMax = 1024;  // 200 bytes each, of a thread

S3Error invalid_argument(std::string message, std::string name, std::string value) {
  S3Error error = s3_error(S3Code::InvalidArgument, std::move(message));
  error.details.emplace_back("ArgumentName", std::move(name));
  error.details.emplace_back("ArgumentValue", std::move(value));
  return error;
}

// What S3 tells so that a client's author finds the difference. All of it is the client's own but
// the secret, which is not in it.
S3Error wrong_signature(std::string_view access_key, std::string_view signature,
                        std::string string_to_sign, std::string canonical_request) {
  S3Error error = s3_error(S3Code::SignatureDoesNotMatch);
  error.details.emplace_back("AWSAccessKeyId", std::string(access_key));
  error.details.emplace_back("StringToSign", std::move(string_to_sign));
  error.details.emplace_back("SignatureProvided", std::string(signature));
  if (!canonical_request.empty()) {
    error.details.emplace_back("CanonicalRequest", std::move(canonical_request));
  }
  return error;
}

S3Error v2_is_off() {
  return s3_error(S3Code::InvalidRequest,
                  "The authorization mechanism you have provided is not supported. Please use "
                  "AWS4-HMAC-SHA256.");
}

Principal principal_of(const Account& account) {
  return {account.account_id, account.display_name, account.access_key};
}

S3Result<PayloadAuth> payload_of(std::string_view hash) {
  constexpr std::pair<std::string_view, PayloadMode> kNames[] = {
      {"UNSIGNED-PAYLOAD", PayloadMode::plain},
      {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", PayloadMode::chunked_unsigned_trailer},
      {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", PayloadMode::chunked_signed},
      {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", PayloadMode::chunked_signed_trailer},
  };
  PayloadAuth payload;
  for (const auto& [name, mode] : kNames) {
    if (hash != name) continue;
    payload.mode = mode;
    return payload;
  }
  const auto digest = hex_decode(hash);
  if (!digest || digest->size() != payload.sha256.size()) {
    return invalid_argument(
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid "
        "sha256 value.",
        "x-amz-content-sha256", std::string(hash));
  }
  payload.mode = PayloadMode::hashed;
  std::copy(digest->begin(), digest->end(), payload.sha256.begin());
  return payload;
}

// There are no sessions, so no token is one of ours.
S3Result<> check_token(const S3Request& request) {
  const auto is_token = [](const auto& field) {
    return http_text::equals_lower(field.first, "x-amz-security-token") && !field.second.empty();
  };
  if (std::none_of(request.headers.begin(), request.headers.end(), is_token) &&
      std::none_of(request.query.begin(), request.query.end(), is_token)) {
    return {};
  }
  return s3_error(S3Code::InvalidToken);
}

bool signature_matches(const HmacSha256& key, std::string_view string_to_sign,
                       std::string_view signature) {
  Sha256Digest given;
  if (signature.size() != 2 * given.size()) return false;
  int bad = 0;  // negative if any digit is none
  for (std::size_t i = 0; i < given.size(); ++i) {
    const int high = hex_digit(signature[2 * i]);
    const int low = hex_digit(signature[2 * i + 1]);
    bad |= high | low;
    given[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  const Sha256Digest expected = key.sign(as_bytes(string_to_sign));
  return bad >= 0 && equal_in_constant_time(std::as_bytes(std::span(given)),
                                            std::as_bytes(std::span(expected)));
}

}  // namespace

std::optional<HmacSha256> SigningKeyCache::find(std::string_view credential,
                                                const Account& account) const {
  const Part& part = parts_.mine();
  const std::lock_guard lock(part.mutex);
  const auto found = part.entries.find(credential);
  if (found == part.entries.end() || found->second.account.get() != &account) return std::nullopt;
  return found->second.key;
}

void SigningKeyCache::keep(std::string_view credential, std::shared_ptr<const Account> account,
                           const HmacSha256& key) {
  Part& part = parts_.mine();
  const std::lock_guard lock(part.mutex);
  if (part.entries.size() >= entries_max_) part.entries.clear();
  part.entries.insert_or_assign(std::string(credential), Entry{std::move(account), key});
}

std::size_t SigningKeyCache::size() const {
  std::size_t sum = 0;
  parts_.all([&sum](const Part& part) {
    const std::lock_guard lock(part.mutex);
    sum += part.entries.size();
  });
  return sum;
}

void SigningKeyCache::clear() {
  parts_.all([](Part& part) {
    const std::lock_guard lock(part.mutex);
    part.entries.clear();
  });
}

Authenticator::Authenticator(const CredentialStore& credentials, const Clock& clock,
                             Options options)
    : credentials_(credentials),
      clock_(clock),
      options_(std::move(options)),
      signing_keys_(kSigningKeysMax) {}

S3Result<AuthResult> Authenticator::authenticate(const S3Request& request) {
  const std::string* authorization = request.header("authorization");
  const bool by_header = authorization != nullptr && !authorization->empty();
  const bool by_query_v4 = has_v4_query(request);
  const bool by_query_v2 = has_v2_query(request);
  if (by_header + by_query_v4 + by_query_v2 > 1) {
    return invalid_argument(
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature "
        "query "
        "string parameter or the Authorization header should be specified",
        "Authorization", by_header ? *authorization : "");
  }
  if (by_query_v4) {
    TRY(claim, parse_v4_query(request));
    return authenticate_v4(request, claim);
  }
  if (by_query_v2) {
    if (!options_.signature_v2) return v2_is_off();
    TRY(claim, parse_v2_query(request));
    return authenticate_v2(request, claim);
  }
  if (!by_header) return s3_error(S3Code::AccessDenied);
  const auto is_authorization = [](const auto& header) { return header.first == "authorization"; };
  if (std::count_if(request.headers.begin(), request.headers.end(), is_authorization) > 1) {
    return invalid_argument("Authorization is given more than once", "Authorization", "");
  }
  const std::size_t name_end = std::min(authorization->find(' '), authorization->size());
  const std::string_view scheme = std::string_view(*authorization).substr(0, name_end);
  if (scheme == kV4Algorithm) {
    TRY(claim, parse_v4_header(request, *authorization));
    return authenticate_v4(request, claim);
  }
  if (scheme == "AWS" && name_end < authorization->size()) {
    if (!options_.signature_v2) return v2_is_off();
    TRY(claim, parse_v2_header(request, *authorization));
    return authenticate_v2(request, claim);
  }
  return invalid_argument("Unsupported Authorization Type", "Authorization", *authorization);
}

S3Result<AuthResult> Authenticator::authenticate_v4(const S3Request& request,
                                                    const V4Claim& claim) {
  if (!claim.in_query) {
    CHECK_OK(check_skew(request, claim.time));
  }
  CHECK_OK(check_v4_scope(claim, options_.strict_region ? options_.region : std::string_view()));
  TRY(hash, v4_payload_hash(request, claim));
  TRY(payload, payload_of(hash));
  TRY(account, account_of(claim.access_key));
  if (claim.in_query) {
    CHECK_OK(check_window(claim.time - kSkewMax, claim.time + claim.expires));
  }
  CHECK_OK(check_v4_headers(request, claim));
  TRY(key, verify_v4(request, claim, account, hash));
  CHECK_OK(check_token(request));
  if (has_signed_chunks(payload.mode)) {
    payload.signer.emplace(key, std::string(claim.timestamp_text()), std::string(claim.scope),
                           std::string(claim.signature));
  }
  const SignedBy by = claim.in_query ? SignedBy::v4_query : SignedBy::v4_header;
  return AuthResult{principal_of(*account), std::move(payload), by};
}

S3Result<HmacSha256> Authenticator::verify_v4(const S3Request& request, const V4Claim& claim,
                                              const std::shared_ptr<const Account>& account,
                                              std::string_view payload_hash) {
  const std::optional<HmacSha256> kept = signing_keys_.find(claim.credential, *account);
  const HmacSha256 key =
      kept ? *kept : v4_signing_key(account->secret_key, claim.date, claim.region, claim.service);
  std::string canonical = v4_canonical_request(request, claim, request.path, payload_hash);
  std::string to_sign = v4_string_to_sign(claim, canonical);
  bool matches = signature_matches(key, to_sign, claim.signature);
  if (!matches) {
    // Some clients send a path that escapes less than what they sign. Both name the same key.
    const auto decoded = percent_decode(request.path);
    const std::string path = decoded ? percent_encode(*decoded, /*keep_slash=*/true) : request.path;
    if (path != request.path) {
      canonical = v4_canonical_request(request, claim, path, payload_hash);
      to_sign = v4_string_to_sign(claim, canonical);
      matches = signature_matches(key, to_sign, claim.signature);
    }
  }
  if (!matches) {
    return wrong_signature(claim.access_key, claim.signature, std::move(to_sign),
                           std::move(canonical));
  }
  // Only keys that have proved themselves are kept, so strangers cannot fill the cache.
  if (!kept) signing_keys_.keep(claim.credential, account, key);
  return key;
}

S3Result<AuthResult> Authenticator::authenticate_v2(const S3Request& request,
                                                    const V2Claim& claim) {
  if (!claim.in_query) {
    CHECK_OK(check_skew(request, claim.time));
  }
  TRY(payload, payload_of(v2_payload_hash(request, claim)));
  if (has_signed_chunks(payload.mode)) {
    return s3_error(S3Code::InvalidRequest, "Signed chunks need AWS4-HMAC-SHA256");
  }
  TRY(account, account_of(claim.access_key));
  if (claim.in_query) {
    CHECK_OK(check_window(WallTime::min(), claim.time));
  }
  std::string to_sign;
  for (const V2Spelling& spelling : v2_spellings(request)) {
    to_sign = v2_string_to_sign(request, claim, spelling);
    const std::string expected = v2_signature(account->secret_key, to_sign);
    if (!equal_in_constant_time(as_bytes(expected), as_bytes(claim.signature))) continue;
    CHECK_OK(check_token(request));
    const SignedBy by = claim.in_query ? SignedBy::v2_query : SignedBy::v2_header;
    return AuthResult{principal_of(*account), std::move(payload), by};
  }
  return wrong_signature(claim.access_key, claim.signature, std::move(to_sign), {});
}

S3Result<> Authenticator::check_skew(const S3Request& request, WallTime time) const {
  const WallTime now = clock_.wall();
  if (time >= now - kSkewMax && time <= now + kSkewMax) return {};
  S3Error error = s3_error(S3Code::RequestTimeTooSkewed);
  const std::string* text = request.header("x-amz-date");
  if (text == nullptr) text = request.header("date");
  error.details.emplace_back("RequestTime", text != nullptr ? *text : "");
  error.details.emplace_back("ServerTime", iso_date(now));
  error.details.emplace_back("MaxAllowedSkewMilliseconds", std::to_string(kSkewMax / 1ms));
  return error;
}

S3Result<> Authenticator::check_window(WallTime from, WallTime to) const {
  const WallTime now = clock_.wall();
  if (now >= from && now < to) return {};
  S3Error error = s3_error(S3Code::AccessDenied,
                           now < from ? "Request is not yet valid" : "Request has expired");
  error.details.emplace_back("Expires", iso_date(to));
  error.details.emplace_back("ServerTime", iso_date(now));
  return error;
}

S3Result<std::shared_ptr<const Account>> Authenticator::account_of(
    std::string_view access_key) const {
  auto account = credentials_.find(access_key);
  if (account != nullptr) return account;
  S3Error error = s3_error(S3Code::InvalidAccessKeyId);
  error.details.emplace_back("AWSAccessKeyId", std::string(access_key));
  return error;
}

}  // namespace penstock
