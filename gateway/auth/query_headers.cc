#include "gateway/auth/query_headers.h"

#include <algorithm>
#include <array>

#include "gateway/s3/http_text.h"

namespace penstock {
namespace {

constexpr std::string_view kPrefix = "x-amz-";

// What the authenticator has read.
bool of_signature(std::string_view name, SignedBy by) {
  constexpr std::array<std::string_view, 6> kNames{"X-Amz-Algorithm", "X-Amz-Credential",
                                                   "X-Amz-Date",      "X-Amz-Expires",
                                                   "X-Amz-Signature", "X-Amz-SignedHeaders"};
  if (http_text::equals_lower(name, "x-amz-security-token")) return true;
  if (by != SignedBy::v4_query) return false;
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         http_text::equals_lower(name, "x-amz-content-sha256");
}

bool stands_for_header(std::string_view name, SignedBy by) {
  if (http_text::equals_lower(name.substr(0, kPrefix.size()), kPrefix)) {
    return !of_signature(name, by);
  }
  return by == SignedBy::v2_query && (name == "content-type" || name == "content-md5");
}

// Version 4 covers the whole query. Version 2 covers these names of a link, in lower case.
bool is_covered(std::string_view name, SignedBy by) {
  if (by == SignedBy::v4_header || by == SignedBy::v4_query) return true;
  return by == SignedBy::v2_query && name == http_text::lower(name);
}

S3Error not_signed(const std::string& name) {
  S3Error error = s3_error(S3Code::AccessDenied,
                           "There were headers present in the request which were not signed");
  error.details.emplace_back("HeadersNotSigned", name);
  return error;
}

S3Error refused(std::string message, const std::string& name, const std::string& value) {
  S3Error error = s3_error(S3Code::InvalidArgument, std::move(message));
  error.details.emplace_back("ArgumentName", name);
  error.details.emplace_back("ArgumentValue", value);
  return error;
}

}  // namespace

S3Result<> take_query_headers(S3Request& request, SignedBy by) {
  for (const auto& [parameter, text] : request.query) {
    if (!stands_for_header(parameter, by)) continue;
    if (!is_covered(parameter, by)) return not_signed(parameter);
    std::string name = http_text::lower(parameter);
    const std::string value(http_text::trim(text, " \t"));
    if (!http_text::is_token(name) || !http_text::is_field_value(value)) {
      return refused("A query parameter stands for a header that cannot be one", name, text);
    }
    const std::string* sent = request.header(name);
    if (sent == nullptr) {
      request.headers.emplace_back(std::move(name), value);
    } else if (*sent != value) {
      return refused("A header and the query parameter that stands for it differ", name, text);
    }
  }
  return {};
}

}  // namespace penstock
