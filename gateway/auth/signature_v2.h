// AWS Signature Version 2 for S3: what boto3 still presigns with by default, and an Authorization
// header of old clients.
//
// It covers the method, Content-MD5, Content-Type, the date or expiry, all x-amz-* headers, the
// path and those query parameters that name a sub-resource or override a response header. It says
// nothing of the body. Source: S3 User Guide, "Authenticating requests using the REST API
// (signature version 2)".
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "gateway/s3/request.h"
#include "gateway/s3/s3_error.h"
#include "penstock/types.h"

namespace penstock {

// Borrows from the request.
struct V2Claim {
  bool in_query = false;
  std::string_view access_key;
  std::string_view signature;  // base64
  std::string_view
      date;  // the text signed in the date's place: expiry, Date, or nothing beside x-amz-date
  WallTime time{};  // query: when it expires; header: when it was signed
};

// Whether the query carries any parameter of this scheme.
bool has_v2_query(const S3Request& request);
// Errors: AccessDenied - a parameter is missing or no number; InvalidArgument - one is given twice.
S3Result<V2Claim> parse_v2_query(const S3Request& request);
// Pre: `authorization` begins with "AWS ". Errors: InvalidArgument; AccessDenied - no valid
// x-amz-date or Date.
S3Result<V2Claim> parse_v2_header(const S3Request& request, std::string_view authorization);

// Clients spell one resource in several ways, and after decoding the requests are the same: a
// sub-resource without a value is signed as "uploads=" or as "uploads", a bucket as "/bucket/" or,
// whatever was sent, as "/bucket".
struct V2Spelling {
  bool empty_values = false;  // "uploads="
  bool bucket_slash = false;  // "/bucket/"; counts only where there is no key
};
// Those that may differ for this request, the likelier ones first.
std::vector<V2Spelling> v2_spellings(const S3Request& request);
std::string v2_string_to_sign(const S3Request& request, const V2Claim& claim,
                              const V2Spelling& spelling);
// The text of x-amz-content-sha256, in a header or signed in the query; "UNSIGNED-PAYLOAD" without.
std::string_view v2_payload_hash(const S3Request& request, const V2Claim& claim);
// base64 of HMAC-SHA-1.
std::string v2_signature(std::string_view secret_key, std::string_view string_to_sign);

}  // namespace penstock
