// Which operation a request asks for. The rule: every sub-resource that S3 knows, and every bare
// parameter that nobody knows, must be one that the operation takes, else NotImplemented: a client
// that asks for something else than a plain PUT must not lose its object to one.
#include <algorithm>
#include <array>

#include "gateway/operations/operations.h"
#include "gateway/s3/http_text.h"

namespace penstock {
namespace {

// The sub-resources of S3; a request's are a set of bits. Source: the operation list of S3.
constexpr std::array<std::string_view, 42> kSubResources{"accelerate",
                                                         "acl",
                                                         "analytics",
                                                         "attributes",
                                                         "cors",
                                                         "delete",
                                                         "encryption",
                                                         "intelligent-tiering",
                                                         "inventory",
                                                         "legal-hold",
                                                         "lifecycle",
                                                         "list-type",
                                                         "location",
                                                         "logging",
                                                         "metrics",
                                                         "notification",
                                                         "object-lock",
                                                         "ownershipControls",
                                                         "partNumber",
                                                         "policy",
                                                         "policyStatus",
                                                         "publicAccessBlock",
                                                         "renameObject",
                                                         "replication",
                                                         "requestPayment",
                                                         "restore",
                                                         "retention",
                                                         "select",
                                                         "session",
                                                         "tagging",
                                                         "torrent",
                                                         "uploadId",
                                                         "uploads",
                                                         "versionId",
                                                         "versioning",
                                                         "versions",
                                                         "website",
                                                         "append",
                                                         "metadataTable",
                                                         "metadataConfiguration",
                                                         "metadataInventoryTable",
                                                         "metadataJournalTable"};
static_assert(kSubResources.size() < 63);

using Set = std::uint64_t;
constexpr Set kUnknown = Set{1} << 63;  // a bare parameter of no known name

consteval Set sub(std::string_view name) {
  for (std::size_t i = 0; i < kSubResources.size(); ++i) {
    if (kSubResources[i] == name) return Set{1} << i;
  }
  throw "no such sub-resource";
}

// Parameters that may come without a value.
constexpr std::array<std::string_view, 19> kParameters{
    "prefix",           "delimiter",          "marker",
    "max-keys",         "encoding-type",      "continuation-token",
    "start-after",      "fetch-owner",        "key-marker",
    "upload-id-marker", "version-id-marker",  "max-uploads",
    "max-parts",        "part-number-marker", "max-buckets",
    "bucket-region",    "Signature",          "Expires",
    "AWSAccessKeyId"};

bool is_parameter(std::string_view name) {
  return http_text::equals_lower(name.substr(0, 2), "x-") || name.starts_with("response-") ||
         std::find(kParameters.begin(), kParameters.end(), name) != kParameters.end();
}

Set sub_resources(const S3Request& request) {
  Set set = 0;
  for (const auto& [name, value] : request.query) {
    const auto at = std::find(kSubResources.begin(), kSubResources.end(), name);
    if (at != kSubResources.end()) {
      set |= Set{1} << (at - kSubResources.begin());
    } else if (value.empty() && !is_parameter(name)) {
      set |= kUnknown;
    }
  }
  return set;
}

// One row: exactly `need` and any of `may` -> operation.
struct Route {
  Set need;
  Set may;
  Operation operation;
};
template <std::size_t N>
Operation find(const std::array<Route, N>& routes, Set asked) {
  for (const Route& route : routes) {
    if ((asked & route.need) == route.need && (asked & ~(route.need | route.may)) == 0) {
      return route.operation;
    }
  }
  return Operation::NotImplemented;
}

constexpr Set kVersion = sub("versionId");
constexpr std::array<Route, 5> kGetObject{{
    {0, kVersion | sub("partNumber"), Operation::GetObject},
    {sub("uploadId"), 0, Operation::ListParts},
    {sub("attributes"), kVersion, Operation::GetObjectAttributes},
    {sub("acl"), kVersion, Operation::GetObjectAcl},
    {sub("tagging"), kVersion, Operation::GetObjectTagging},
}};
constexpr std::array<Route, 1> kHeadObject{{
    {0, kVersion | sub("partNumber"), Operation::HeadObject},
}};
constexpr std::array<Route, 2> kPutObject{{
    {0, 0, Operation::PutObject},
    {sub("uploadId") | sub("partNumber"), 0, Operation::UploadPart},
}};
constexpr std::array<Route, 2> kDeleteObject{{
    {0, kVersion, Operation::DeleteObject},
    {sub("uploadId"), 0, Operation::AbortMultipartUpload},
}};
constexpr std::array<Route, 3> kPostObject{{
    {sub("uploads"), 0, Operation::CreateMultipartUpload},
    {sub("uploadId"), 0, Operation::CompleteMultipartUpload},
    {0, 0, Operation::MethodNotAllowed},
}};
constexpr std::array<Route, 18> kGetBucket{{
    {0, 0, Operation::ListObjects},
    {sub("list-type"), 0, Operation::ListObjectsV2},
    {sub("location"), 0, Operation::GetBucketLocation},
    {sub("versioning"), 0, Operation::GetBucketVersioning},
    {sub("versions"), 0, Operation::ListObjectVersions},
    {sub("uploads"), 0, Operation::ListMultipartUploads},
    {sub("acl"), 0, Operation::GetBucketAcl},
    {sub("policy"), 0, Operation::BucketConfigRead},
    {sub("policyStatus"), 0, Operation::BucketConfigRead},
    {sub("cors"), 0, Operation::BucketConfigRead},
    {sub("website"), 0, Operation::BucketConfigRead},
    {sub("lifecycle"), 0, Operation::BucketConfigRead},
    {sub("replication"), 0, Operation::BucketConfigRead},
    {sub("encryption"), 0, Operation::BucketConfigRead},
    {sub("object-lock"), 0, Operation::BucketConfigRead},
    {sub("tagging"), 0, Operation::BucketConfigRead},
    {sub("publicAccessBlock"), 0, Operation::BucketConfigRead},
    {sub("ownershipControls"), 0, Operation::BucketConfigRead},
}};

Operation route_object(const S3Request& request, Set asked) {
  if (request.method == "GET") return find(kGetObject, asked);
  if (request.method == "HEAD") return find(kHeadObject, asked);
  if (request.method == "DELETE") return find(kDeleteObject, asked);
  if (request.method == "POST") return find(kPostObject, asked);
  if (request.method != "PUT") return Operation::MethodNotAllowed;
  const Operation operation = find(kPutObject, asked);
  if (operation == Operation::NotImplemented) return operation;
  if (request.header("x-amz-write-offset-bytes") != nullptr ||
      request.header("x-amz-rename-source") != nullptr) {
    return Operation::NotImplemented;
  }
  if (request.header("x-amz-copy-source") == nullptr) return operation;
  return operation == Operation::PutObject ? Operation::CopyObject : Operation::UploadPartCopy;
}

Operation only(Set asked, Operation operation) {
  return asked == 0 ? operation : Operation::NotImplemented;
}

// An upload from a browser, signed in the fields of the form.
bool is_form(const S3Request& request) {
  constexpr std::string_view kForm = "multipart/form-data";
  const std::string* type = request.header("content-type");
  return type != nullptr &&
         http_text::equals_lower(std::string_view(*type).substr(0, kForm.size()), kForm);
}

Operation route_bucket(const S3Request& request, Set asked) {
  if (request.method == "GET") return find(kGetBucket, asked);
  if (request.method == "HEAD") return only(asked, Operation::HeadBucket);
  if (request.method == "PUT") return only(asked, Operation::CreateBucket);
  if (request.method == "DELETE") return only(asked, Operation::DeleteBucket);
  if (request.method != "POST") return Operation::MethodNotAllowed;
  if (asked == 0 && is_form(request)) return Operation::PostObject;
  return asked == sub("delete") ? Operation::DeleteObjects : Operation::NotImplemented;
}

}  // namespace

Operation route(const S3Request& request) {
  if (request.method == "OPTIONS" && !request.bucket.empty()) return Operation::Preflight;
  const Set asked = sub_resources(request);
  if (!request.key.empty()) return route_object(request, asked);
  if (!request.bucket.empty()) return route_bucket(request, asked);
  if (request.method != "GET") return Operation::MethodNotAllowed;
  return only(asked, Operation::ListBuckets);
}

std::string_view to_string(Operation operation) {
  switch (operation) {
#define NAME(operation_name)      \
  case Operation::operation_name: \
    return #operation_name
    NAME(ListBuckets);
    NAME(CreateBucket);
    NAME(HeadBucket);
    NAME(DeleteBucket);
    NAME(GetBucketLocation);
    NAME(GetBucketVersioning);
    NAME(ListObjects);
    NAME(ListObjectsV2);
    NAME(ListObjectVersions);
    NAME(ListMultipartUploads);
    NAME(DeleteObjects);
    NAME(PutObject);
    NAME(GetObject);
    NAME(HeadObject);
    NAME(DeleteObject);
    NAME(CopyObject);
    NAME(GetObjectAttributes);
    NAME(CreateMultipartUpload);
    NAME(UploadPart);
    NAME(UploadPartCopy);
    NAME(CompleteMultipartUpload);
    NAME(AbortMultipartUpload);
    NAME(ListParts);
    NAME(GetBucketAcl);
    NAME(GetObjectAcl);
    NAME(GetObjectTagging);
    NAME(BucketConfigRead);
    NAME(Preflight);
    NAME(PostObject);
    NAME(NotImplemented);
    NAME(MethodNotAllowed);
#undef NAME
  }
  return "?";
}

}  // namespace penstock
