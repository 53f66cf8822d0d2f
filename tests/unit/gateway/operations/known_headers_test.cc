#include "gateway/operations/known_headers.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {

TEST_CASE("a header of S3 that nobody reads is refused on every operation") {
  for (const char* name :
       {"x-amz-if-match-initiated-time", "x-amz-if-match-last-modified-time", "x-amz-if-match-size",
        "x-amz-write-offset-bytes", "x-amz-rename-source", "x-amz-s3session-token",
        "x-amz-create-session-mode", "x-amz-signature", "x-amz-", "x-amz-copy-sourc"}) {
    for (std::size_t i = 0; i < kOperationCount; ++i) {
      CAPTURE(name);
      const auto operation = static_cast<Operation>(i);
      const auto checked = check_known_headers(operation, with_headers({{name, "v"}}));
      REQUIRE_FALSE(checked);
      CHECK(checked.error().code == S3Code::NotImplemented);
      CHECK(checked.error().details.front().second == name);
    }
  }
}

TEST_CASE("what asks for nothing is passed over, and what is no header of S3") {
  for (const char* name :
       {"x-amz-request-payer", "x-amz-bypass-governance-retention", "x-amz-mfa", "x-amz-user-agent",
        "x-amz-optional-object-attributes", "x-amz-te", "x-amz-meta-x-amz-", "amz-sdk-request",
        "x-amzn-trace-id", "x-forwarded-for", "user-agent"}) {
    CAPTURE(name);
    CHECK(check_known_headers(Operation::PutObject, with_headers({{name, "v"}})));
  }
}

TEST_CASE("conditions and sources stand where they are read") {
  const auto fine = [](Operation operation, const char* name) {
    return check_known_headers(operation, with_headers({{name, "v"}})).has_value();
  };
  for (const char* name : {"if-match", "if-none-match", "if-modified-since"}) {
    CHECK(fine(Operation::PutObject, name));
    CHECK(fine(Operation::GetObject, name));
    CHECK(fine(Operation::CompleteMultipartUpload, name));
    CHECK(fine(Operation::DeleteObject, name));
    CHECK(fine(Operation::ListObjectsV2, name));
    CHECK_FALSE(fine(Operation::UploadPart, name));
    CHECK_FALSE(fine(Operation::AbortMultipartUpload, name));
    CHECK_FALSE(fine(Operation::DeleteObjects, name));
    CHECK_FALSE(fine(Operation::DeleteBucket, name));
  }
  CHECK(fine(Operation::CopyObject, "x-amz-copy-source-if-match"));
  CHECK_FALSE(fine(Operation::PutObject, "x-amz-copy-source-if-match"));
  CHECK_FALSE(fine(Operation::DeleteObject, "x-amz-copy-source"));
  CHECK(fine(Operation::UploadPartCopy, "x-amz-copy-source-range"));
  CHECK_FALSE(fine(Operation::CopyObject, "x-amz-copy-source-range"));
  CHECK_FALSE(fine(Operation::PutObject, "content-range"));
  CHECK(fine(Operation::GetObject, "content-range"));
}

}  // namespace penstock
