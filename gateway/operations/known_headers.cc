#include "gateway/operations/known_headers.h"

#include <algorithm>
#include <array>

namespace penstock {
namespace {

// Read by an operation, a body or an authenticator, or refused there with an error of their own.
constexpr std::array<std::string_view, 25> kRead{"x-amz-acl",
                                                 "x-amz-bucket-namespace",
                                                 "x-amz-bucket-object-lock-enabled",
                                                 "x-amz-checksum-algorithm",
                                                 "x-amz-checksum-mode",
                                                 "x-amz-checksum-type",
                                                 "x-amz-content-sha256",
                                                 "x-amz-copy-source",
                                                 "x-amz-date",
                                                 "x-amz-decoded-content-length",
                                                 "x-amz-expected-bucket-owner",
                                                 "x-amz-max-parts",
                                                 "x-amz-metadata-directive",
                                                 "x-amz-mp-object-size",
                                                 "x-amz-object-attributes",
                                                 "x-amz-object-ownership",
                                                 "x-amz-part-number-marker",
                                                 "x-amz-sdk-checksum-algorithm",
                                                 "x-amz-security-token",
                                                 "x-amz-source-expected-bucket-owner",
                                                 "x-amz-storage-class",
                                                 "x-amz-tagging",
                                                 "x-amz-tagging-directive",
                                                 "x-amz-trailer",
                                                 "x-amz-website-redirect-location"};
constexpr std::array<std::string_view, 6> kReadPrefixes{
    "x-amz-checksum-", "x-amz-copy-source-", "x-amz-grant-",
    "x-amz-meta-",     "x-amz-object-lock-", "x-amz-server-side-encryption"};
// They ask for nothing that is not so anyway: nobody is charged, nothing is locked or archived, and
// no deletion wants a second factor. The others speak of the client.
constexpr std::array<std::string_view, 7> kPassedOver{"x-amz-request-payer",
                                                      "x-amz-bypass-governance-retention",
                                                      "x-amz-mfa",
                                                      "x-amz-optional-object-attributes",
                                                      "x-amz-user-agent",
                                                      "x-amz-api-version",
                                                      "x-amz-te"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_known(std::string_view name) {
  return is_one_of(kRead, name) || is_one_of(kPassedOver, name) ||
         std::any_of(kReadPrefixes.begin(), kReadPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_copy(Operation operation) {
  return operation == Operation::CopyObject || operation == Operation::UploadPartCopy;
}

// Writes that take no condition.
bool writes_anyhow(Operation operation) {
  switch (operation) {
    case Operation::CreateBucket:
    case Operation::DeleteBucket:
    case Operation::DeleteObjects:
    case Operation::CreateMultipartUpload:
    case Operation::UploadPart:
    case Operation::UploadPartCopy:
    case Operation::AbortMultipartUpload:
      return true;
    default:
      return false;
  }
}

// Headers that change what is done, where they stand on an operation that does not heed them.
bool is_out_of_place(Operation operation, std::string_view name) {
  if (name.starts_with("x-amz-copy-source")) {
    const bool is_range = name == "x-amz-copy-source-range";
    return is_range ? operation != Operation::UploadPartCopy : !is_copy(operation);
  }
  // Writes with conditions have them read; those without must not write as if there were none.
  constexpr std::array<std::string_view, 4> kConditions{"if-match", "if-none-match",
                                                        "if-modified-since", "if-unmodified-since"};
  if (is_one_of(kConditions, name)) return writes_anyhow(operation);
  const bool has_body = operation == Operation::PutObject || operation == Operation::UploadPart;
  return name == "content-range" && has_body;  // a part of an object cannot be put
}

}  // namespace

S3Result<> check_known_headers(Operation operation, const S3Request& request) {
  for (const auto& [name, value] : request.headers) {
    const bool unknown = name.starts_with("x-amz-") && !is_known(name);
    if (!unknown && !is_out_of_place(operation, name)) continue;
    S3Error error = s3_error(S3Code::NotImplemented);
    error.details.emplace_back("Header", name);
    return error;
  }
  return {};
}

}  // namespace penstock
