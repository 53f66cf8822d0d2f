#include "gateway/auth/signature_v2.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "gateway/auth/signature_v4.h"
#include "gateway/s3/http_date.h"
#include "penstock/hmac.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

// The parameters that the resource includes, sorted.
constexpr std::string_view kSignedParameters[] = {
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "defaultObjectAcl",
    "delete",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "partNumber",
    "policy",
    "replication",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "select",
    "select-type",
    "storageClass",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
};
static_assert(std::is_sorted(std::begin(kSignedParameters), std::end(kSignedParameters)));

// boto3 presigns headers into the query, in lower case; a browser that follows the link does not
// send them as headers.
std::string_view header_or_parameter(const S3Request& request, const V2Claim& claim,
                                     std::string_view name) {
  if (const std::string* value = request.header(name)) return *value;
  const std::string* value = claim.in_query ? request.query_value(name) : nullptr;
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

void append_amz_headers(std::string& out, const S3Request& request, const V2Claim& claim) {
  std::map<std::string_view, std::string> headers;
  for (const auto& [name, value] : request.headers) {
    if (!name.starts_with("x-amz-")) continue;
    const auto [entry, is_new] = headers.try_emplace(name, value);
    if (!is_new) entry->second += "," + value;
  }
  for (const auto& [name, value] : request.query) {
    if (claim.in_query && name.starts_with("x-amz-")) headers.try_emplace(name, value);
  }
  for (const auto& [name, value] : headers) {
    out.append(name).append(":").append(value).append("\n");
  }
}

// A virtual host's name stands for the bucket that its paths leave out. Lengths tell the two forms
// apart: the decoded path is "/BUCKET/KEY" or "/BUCKET" in one, "/KEY" in the other.
bool is_virtual_host(const S3Request& request) {
  if (request.bucket.empty()) return false;
  std::size_t decoded = request.path.size();
  for (const char c : request.path) decoded -= c == '%' ? 2 : 0;
  return decoded == 1 + request.key.size();
}

void append_path(std::string& out, const S3Request& request, bool bucket_slash) {
  const bool virtual_host = is_virtual_host(request);
  if (virtual_host) out.append("/").append(request.bucket);
  std::string_view path = request.path;
  if (!request.bucket.empty() && request.key.empty()) {
    if (path.ends_with('/')) path.remove_suffix(1);
    out += path;
    if (bucket_slash) out += '/';
    return;
  }
  out += path;
}

void append_resource(std::string& out, const S3Request& request, const V2Spelling& spelling) {
  append_path(out, request, spelling.bucket_slash);
  std::vector<std::pair<std::string_view, std::string_view>> parameters;
  for (const auto& [name, value] : request.query) {
    if (std::binary_search(std::begin(kSignedParameters), std::end(kSignedParameters), name)) {
      parameters.emplace_back(name, value);
    }
  }
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  char separator = '?';
  for (const auto& [name, value] : parameters) {
    out += separator;
    out += name;
    if (!value.empty() || spelling.empty_values) out.append("=").append(value);
    separator = '&';
  }
}

}  // namespace

bool has_v2_query(const S3Request& request) {
  return request.has_query("AWSAccessKeyId") || request.has_query("Signature");
}

S3Result<V2Claim> parse_v2_query(const S3Request& request) {
  V2Claim claim;
  claim.in_query = true;
  const std::pair<std::string_view, std::string_view*> parameters[] = {
      {"AWSAccessKeyId", &claim.access_key},
      {"Signature", &claim.signature},
      {"Expires", &claim.date},
  };
  for (const auto& [name, value] : request.query) {
    for (const auto& [wanted, place] : parameters) {
      if (name != wanted) continue;
      if (!place->empty()) {
        return s3_error(S3Code::InvalidArgument, "The query parameter " + name + " is given twice");
      }
      *place = value;
    }
  }
  if (claim.access_key.empty() || claim.signature.empty() || claim.date.empty()) {
    return s3_error(S3Code::AccessDenied,
                    "Query-string authentication requires the Signature, Expires and "
                    "AWSAccessKeyId parameters");
  }
  std::int64_t seconds = 0;
  const char* const end = claim.date.data() + claim.date.size();
  const auto [stop, error] = std::from_chars(claim.date.data(), end, seconds);
  constexpr std::int64_t kYear9999 = 253'402'300'799;
  if (stop != end || error != std::errc() || seconds < 0 || seconds > kYear9999) {
    return s3_error(S3Code::AccessDenied,
                    "Invalid date (should be seconds since epoch): " + std::string(claim.date));
  }
  claim.time = WallTime(std::chrono::seconds(seconds));
  return claim;
}

S3Result<V2Claim> parse_v2_header(const S3Request& request, std::string_view authorization) {
  V2Claim claim;
  const std::string_view rest = authorization.substr(std::string_view("AWS ").size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == rest.size()) {
    S3Error error =
        s3_error(S3Code::InvalidArgument,
                 "AWS authorization header is invalid.  Expected AwsAccessKeyId:signature");
    error.details.emplace_back("ArgumentName", "Authorization");
    error.details.emplace_back("ArgumentValue", std::string(authorization));
    return error;
  }
  claim.access_key = rest.substr(0, colon);
  claim.signature = rest.substr(colon + 1);
  const std::string* amz = request.header("x-amz-date");
  const std::string* text = amz != nullptr ? amz : request.header("date");
  if (text != nullptr) {
    auto time = parse_http_date(*text);
    if (!time) time = parse_amz_date(*text);
    if (time && *time >= WallTime{}) {
      claim.time = *time;
      if (amz == nullptr) claim.date = *text;  // else it is among the x-amz-* headers
      return claim;
    }
  }
  return s3_error(S3Code::AccessDenied,
                  "AWS authentication requires a valid Date or x-amz-date header");
}

std::vector<V2Spelling> v2_spellings(const S3Request& request) {
  const bool is_bucket = !request.bucket.empty() && request.key.empty();
  std::vector<V2Spelling> spellings;
  for (const bool bucket_slash : {true, false}) {
    if (bucket_slash && !is_bucket) continue;
    spellings.push_back({true, bucket_slash});
    spellings.push_back({false, bucket_slash});
  }
  return spellings;
}

std::string v2_string_to_sign(const S3Request& request, const V2Claim& claim,
                              const V2Spelling& spelling) {
  std::string text;
  text.append(request.method).append("\n");
  text.append(header_or_parameter(request, claim, "content-md5")).append("\n");
  text.append(header_or_parameter(request, claim, "content-type")).append("\n");
  text.append(claim.date).append("\n");
  append_amz_headers(text, request, claim);
  append_resource(text, request, spelling);
  return text;
}

std::string_view v2_payload_hash(const S3Request& request, const V2Claim& claim) {
  const std::string_view hash = header_or_parameter(request, claim, "x-amz-content-sha256");
  return hash.empty() ? std::string_view("UNSIGNED-PAYLOAD") : hash;
}

std::string v2_signature(std::string_view secret_key, std::string_view string_to_sign) {
  const auto digest = hmac_sha1(as_bytes(secret_key), as_bytes(string_to_sign));
  return base64_encode(std::as_bytes(std::span(digest)));
}

}  // namespace penstock
