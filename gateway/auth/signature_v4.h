// AWS Signature Version 4 for S3: what a request claims, and what its signature would have to be.
//
// Pure functions of the request. The order of checks, the account and the clock are the
// Authenticator's. Source: S3 API Reference, "Authenticating Requests (AWS Signature Version 4)".
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/s3/request.h"
#include "gateway/s3/s3_error.h"
#include "penstock/hmac.h"
#include "penstock/types.h"

namespace penstock {

// What an Authorization header or a presigned query says. Borrows from the request.
struct V4Claim {
  bool in_query = false;
  std::string_view credential;  // ACCESS_KEY/20130524/us-east-1/s3/aws4_request
  std::string_view access_key;
  std::string_view date;  // 20130524
  std::string_view region;
  std::string_view service;
  std::string_view terminal;
  std::string_view scope;  // credential without the access key
  std::string_view signed_headers;
  std::string_view signature;        // hex, not yet looked at
  std::array<char, 16> timestamp{};  // 20130524T000000Z
  WallTime time{};
  Duration expires{};  // query only: valid from `time` for so long
  std::string_view timestamp_text() const { return {timestamp.data(), timestamp.size()}; }
};

inline constexpr std::string_view kV4Algorithm = "AWS4-HMAC-SHA256";

// Whether the query carries any parameter of this scheme.
bool has_v4_query(const S3Request& request);
// Pre: the Authorization header begins with kV4Algorithm.
// Errors: AuthorizationHeaderMalformed; AccessDenied - no valid x-amz-date or Date.
S3Result<V4Claim> parse_v4_header(const S3Request& request, std::string_view authorization);
// Errors: AuthorizationQueryParametersError.
S3Result<V4Claim> parse_v4_query(const S3Request& request);
// The scope must be of S3, of the claim's day and, if `region` is not empty, of that region.
// Errors: AuthorizationHeaderMalformed, AuthorizationQueryParametersError, with <Region> where that
// is wrong.
S3Result<> check_v4_scope(const V4Claim& claim, std::string_view region);
// `host` and every x-amz-* header of the request must be signed, or somebody in between could have
// added them: an unsigned x-amz-copy-source would turn a link for an upload into one for reading.
// What cannot change the meaning of a request is free: x-amz-user-agent, amz-sdk-*, and an
// x-amz-content-sha256 that the signature covers by other means. Errors: AccessDenied;
// SignatureDoesNotMatch - a signed header is not there.
S3Result<> check_v4_headers(const S3Request& request, const V4Claim& claim);
// The hash that the signature covers: the text of x-amz-content-sha256.
// Errors: InvalidRequest - the header is missing and there is no query; InvalidArgument - given
// twice.
S3Result<std::string_view> v4_payload_hash(const S3Request& request, const V4Claim& claim);

HmacSha256 v4_signing_key(std::string_view secret_key, std::string_view date,
                          std::string_view region, std::string_view service);
// `path` is the percent-encoded one to sign.
std::string v4_canonical_request(const S3Request& request, const V4Claim& claim,
                                 std::string_view path, std::string_view payload_hash);
std::string v4_string_to_sign(const V4Claim& claim, std::string_view canonical_request);

// "20130524T000000Z"; nullopt for anything else and for times before 1970.
std::optional<WallTime> parse_amz_date(std::string_view text);
std::array<char, 16> amz_date(WallTime time);

}  // namespace penstock
