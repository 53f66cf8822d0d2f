#include <doctest/doctest.h>

#include "gateway/operations/operations.h"
#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {
namespace {
std::string routed(const char* method, const char* bucket, const char* key, Pairs query = {},
                   Pairs headers = {}) {
  return std::string(
      to_string(route(make_request(method, bucket, key, std::move(query), std::move(headers)))));
}
}  // namespace

TEST_CASE("every operation has its method, path and sub-resource") {
  struct Row {
    const char *method, *bucket, *key;
    Pairs query;
    const char* operation;
  };
  const Row rows[] = {
      {"GET", "", "", {}, "ListBuckets"},
      {"GET", "", "", {{"x-id", "ListBuckets"}}, "ListBuckets"},
      {"PUT", "b", "", {}, "CreateBucket"},
      {"HEAD", "b", "", {}, "HeadBucket"},
      {"DELETE", "b", "", {}, "DeleteBucket"},
      {"GET", "b", "", {{"location", ""}}, "GetBucketLocation"},
      {"GET", "b", "", {{"versioning", ""}}, "GetBucketVersioning"},
      {"GET", "b", "", {}, "ListObjects"},
      {"GET", "b", "", {{"prefix", ""}, {"delimiter", ""}, {"marker", ""}}, "ListObjects"},
      {"GET", "b", "", {{"list-type", "2"}, {"fetch-owner", "true"}}, "ListObjectsV2"},
      {"GET", "b", "", {{"versions", ""}, {"key-marker", ""}}, "ListObjectVersions"},
      {"GET", "b", "", {{"uploads", ""}}, "ListMultipartUploads"},
      {"GET", "b", "", {{"acl", ""}}, "GetBucketAcl"},
      {"GET", "b", "", {{"policy", ""}}, "BucketConfigRead"},
      {"GET", "b", "", {{"cors", ""}}, "BucketConfigRead"},
      {"GET", "b", "", {{"tagging", ""}}, "BucketConfigRead"},
      {"POST", "b", "", {{"delete", ""}}, "DeleteObjects"},
      {"PUT", "b", "k", {}, "PutObject"},
      {"PUT", "b", "k", {{"x-id", "PutObject"}}, "PutObject"},
      {"PUT", "b", "k", {{"X-Amz-Signature", ""}, {"AWSAccessKeyId", ""}}, "PutObject"},
      {"PUT", "b", "k", {{"uploadId", "u"}, {"partNumber", "1"}}, "UploadPart"},
      {"GET", "b", "k", {}, "GetObject"},
      {"GET", "b", "k", {{"versionId", "null"}, {"partNumber", "1"}}, "GetObject"},
      {"GET", "b", "k", {{"response-content-type", ""}}, "GetObject"},
      {"HEAD", "b", "k", {{"partNumber", "1"}}, "HeadObject"},
      {"GET", "b", "k", {{"attributes", ""}}, "GetObjectAttributes"},
      {"GET", "b", "k", {{"acl", ""}}, "GetObjectAcl"},
      {"GET", "b", "k", {{"tagging", ""}}, "GetObjectTagging"},
      {"GET", "b", "k", {{"uploadId", "u"}, {"max-parts", "2"}}, "ListParts"},
      {"POST", "b", "k", {{"uploads", ""}}, "CreateMultipartUpload"},
      {"POST", "b", "k", {{"uploadId", "u"}}, "CompleteMultipartUpload"},
      {"DELETE", "b", "k", {{"uploadId", "u"}}, "AbortMultipartUpload"},
      {"DELETE", "b", "k", {}, "DeleteObject"},
      {"DELETE", "b", "k", {{"versionId", "null"}}, "DeleteObject"},
      {"POST", "b", "k", {}, "MethodNotAllowed"},
      {"PATCH", "b", "k", {}, "MethodNotAllowed"},
      {"OPTIONS", "b", "", {}, "Preflight"},
      {"OPTIONS", "b", "k", {{"uploads", ""}}, "Preflight"},
      {"OPTIONS", "", "", {}, "MethodNotAllowed"},
      {"PUT", "", "", {}, "MethodNotAllowed"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.method);
    CAPTURE(row.operation);
    CHECK(routed(row.method, row.bucket, row.key, row.query) == row.operation);
  }
}

TEST_CASE("a copy source turns a put into a copy") {
  const Pairs headers{{"x-amz-copy-source", "b/k"}};
  CHECK(routed("PUT", "b", "k", {}, headers) == "CopyObject");
  CHECK(routed("PUT", "b", "k", {{"uploadId", "u"}, {"partNumber", "1"}}, headers) ==
        "UploadPartCopy");
}

TEST_CASE("a sub-resource that is not served is never a plain operation") {
  for (const char* name : {"accelerate",
                           "acl",
                           "analytics",
                           "cors",
                           "delete",
                           "encryption",
                           "intelligent-tiering",
                           "inventory",
                           "legal-hold",
                           "lifecycle",
                           "logging",
                           "metrics",
                           "notification",
                           "object-lock",
                           "ownershipControls",
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
                           "uploads",
                           "versioning",
                           "versions",
                           "website",
                           "append",
                           "annotation"}) {
    CAPTURE(name);
    CHECK(routed("PUT", "b", "k", {{name, ""}}) == "NotImplemented");
    CHECK(routed("DELETE", "b", "k", {{name, ""}}) == "NotImplemented");
    CHECK(routed("PUT", "b", "", {{name, ""}}) == "NotImplemented");
    CHECK(routed("DELETE", "b", "", {{name, ""}}) == "NotImplemented");
    CHECK(routed("HEAD", "b", "k", {{name, ""}}) == "NotImplemented");
    CHECK(routed("GET", "b", "k", {{name, ""}}) != "GetObject");
    CHECK(routed("GET", "b", "", {{name, ""}}) != "ListObjects");
  }
  CHECK(routed("PUT", "b", "k", {{"uploadId", "u"}}) == "NotImplemented");
  CHECK(routed("PUT", "b", "k", {{"partNumber", "1"}}) == "NotImplemented");
  CHECK(routed("PUT", "b", "k", {{"versionId", "null"}}) == "NotImplemented");
  CHECK(routed("POST", "b", "") == "NotImplemented");
  const std::string form = "Multipart/Form-Data; boundary=x";
  CHECK(routed("POST", "b", "", {}, {{"content-type", form}}) == "PostObject");
  CHECK(routed("POST", "b", "", {{"delete", ""}}, {{"content-type", form}}) == "DeleteObjects");
  CHECK(routed("GET", "b", "k", {{"attributes", ""}, {"acl", ""}}) == "NotImplemented");
}

TEST_CASE("an append or a rename is never a plain put") {
  CHECK(routed("PUT", "b", "k", {}, {{"x-amz-write-offset-bytes", "5"}}) == "NotImplemented");
  CHECK(routed("PUT", "b", "k", {}, {{"x-amz-rename-source", "b/x"}}) == "NotImplemented");
}

}  // namespace penstock
