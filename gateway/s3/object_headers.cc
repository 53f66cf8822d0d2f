#include "gateway/s3/object_headers.h"

#include <algorithm>
#include <array>

#include "gateway/s3/http_text.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::string_view kMetaPrefix = "x-amz-meta-";
constexpr std::array<std::string_view, 6> kContentHeaders{
    "content-type",     "cache-control", "content-disposition",
    "content-language", "expires",       "x-amz-website-redirect-location"};

// How S3 spells the stored headers in an answer; the others go out as they are kept.
std::string display_name(std::string_view name) {
  if (name.starts_with("x-amz-")) return std::string(name);
  std::string out(name);
  bool upper = true;
  for (char& c : out) {
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    upper = c == '-';
  }
  return out;
}

S3Error not_implemented(std::string_view header) {
  S3Error error = s3_error(S3Code::NotImplemented);
  error.details.emplace_back("Header", std::string(header));
  return error;
}

S3Result<> check_metadata_size(const StoredHeaders& headers) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : headers) {
    if (name.starts_with(kMetaPrefix)) bytes += name.size() - kMetaPrefix.size() + value.size();
  }
  if (bytes <= limits::kUserMetadataBytesMax) return {};
  S3Error error = s3_error(S3Code::MetadataTooLarge);
  error.details.emplace_back("Size", std::to_string(bytes));
  error.details.emplace_back("MaxSizeAllowed", std::to_string(limits::kUserMetadataBytesMax));
  return error;
}

S3Result<> check_section_size(const S3Request& request) {
  constexpr std::size_t kFieldBytes = 4;  // ": " and the line's end
  std::size_t bytes = 0;
  for (const auto& [name, value] : request.headers) {
    bytes += name.size() + value.size() + kFieldBytes;
  }
  if (bytes <= limits::kHeaderSectionBytesMax) return {};
  S3Error error = s3_error(S3Code::RequestHeaderSectionTooLarge);
  error.details.emplace_back("MaxSizeAllowed", std::to_string(limits::kHeaderSectionBytesMax));
  return error;
}

}  // namespace

std::string content_encoding(std::string_view value) {
  const std::string_view all = value;
  std::string kept;
  bool dropped = false;
  while (true) {
    const auto comma = value.find(',');
    const std::string_view token = http_text::trim(value.substr(0, comma), " \t");
    if (http_text::equals_lower(token, "aws-chunked")) {
      dropped = true;
    } else if (!token.empty()) {
      kept.append(kept.empty() ? "" : ", ").append(token);
    }
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
  }
  return dropped ? kept : std::string(all);
}

S3Result<StoredHeaders> stored_headers(const S3Request& request) {
  StoredHeaders stored;
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with(kMetaPrefix)) {
      const auto [at, fresh] = stored.emplace(name, value);
      if (!fresh) at->second.append(",").append(value);  // a repeated header is one list
    } else if (name == "content-encoding") {
      std::string kept = content_encoding(value);
      if (!kept.empty()) stored[name] = std::move(kept);
    } else if (std::find(kContentHeaders.begin(), kContentHeaders.end(), name) !=
                   kContentHeaders.end() &&
               !value.empty()) {
      stored[name] = value;
    }
  }
  CHECK_OK(check_metadata_size(stored));
  CHECK_OK(check_section_size(request));
  return stored;
}

void set_stored_headers(S3Response& response, const StoredHeaders& headers) {
  if (!headers.contains("content-type")) response.set("Content-Type", "binary/octet-stream");
  for (const auto& [name, value] : headers) response.set(display_name(name), value);
}

S3Result<> check_acl_headers(const S3Request& request) {
  // The owner of an object is the owner of its bucket, so these three grant what is there already.
  constexpr std::array<std::string_view, 3> kHarmless{"private", "bucket-owner-full-control",
                                                      "bucket-owner-read"};
  constexpr std::array<std::string_view, 5> kGranting{"public-read", "public-read-write",
                                                      "authenticated-read", "aws-exec-read",
                                                      "log-delivery-write"};
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-amz-grant-")) return not_implemented(name);
    if (name != "x-amz-acl") continue;
    if (std::find(kHarmless.begin(), kHarmless.end(), value) != kHarmless.end()) continue;
    if (std::find(kGranting.begin(), kGranting.end(), value) != kGranting.end()) {
      return not_implemented(name);
    }
    return s3_error(S3Code::InvalidArgument, "The canned ACL is not known");
  }
  return {};
}

S3Result<> check_object_write_headers(const S3Request& request) {
  CHECK_OK(check_acl_headers(request));
  for (const auto& [name, value] : request.headers) {
    if (!name.starts_with("x-amz-")) continue;
    if (name.starts_with("x-amz-server-side-encryption") || name == "x-amz-write-offset-bytes" ||
        (name == "x-amz-tagging" && !value.empty())) {
      return not_implemented(name);
    }
    if (name.starts_with("x-amz-object-lock-")) {
      return s3_error(S3Code::InvalidRequest, "Bucket is missing Object Lock Configuration");
    }
    if (name == "x-amz-storage-class" && value != "STANDARD" && value != "REDUCED_REDUNDANCY") {
      return s3_error(S3Code::InvalidStorageClass);
    }
  }
  return check_object_read_headers(request);
}

S3Result<> check_object_read_headers(const S3Request& request) {
  for (const auto& [name, value] : request.headers) {
    if (name == "x-amz-server-side-encryption") {
      return s3_error(S3Code::InvalidArgument,
                      "x-amz-server-side-encryption header is not supported for this operation.");
    }
    if (name.starts_with("x-amz-server-side-encryption-customer-") ||
        name.starts_with("x-amz-copy-source-server-side-encryption-customer-")) {
      return s3_error(S3Code::InvalidRequest,
                      "The encryption parameters are not applicable to this object.");
    }
  }
  return {};
}

}  // namespace penstock
