#include "gateway/auth/query_headers.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {
namespace {
S3Request link(Pairs query, Pairs headers = {}) {
  return make_request("PUT", "b", "k", std::move(query), std::move(headers));
}
}  // namespace

TEST_CASE("what a link carries becomes the header that it stands for") {
  for (const SignedBy by : {SignedBy::v4_query, SignedBy::v4_header, SignedBy::v2_query}) {
    S3Request request =
        link({{"x-amz-copy-source", "b/s"}, {"x-amz-meta-a", " 1 "}, {"x-id", "X"}});
    REQUIRE(take_query_headers(request, by));
    CHECK(request.headers == Pairs{{"x-amz-copy-source", "b/s"}, {"x-amz-meta-a", "1"}});
  }
  S3Request upper = link({{"X-Amz-Acl", "private"}});
  REQUIRE(take_query_headers(upper, SignedBy::v4_query));
  CHECK(upper.headers == Pairs{{"x-amz-acl", "private"}});
}

TEST_CASE("the parameters of the signature stay parameters") {
  S3Request request = link({{"X-Amz-Algorithm", "a"},
                            {"X-Amz-Credential", "c"},
                            {"X-Amz-Date", "d"},
                            {"X-Amz-Expires", "e"},
                            {"X-Amz-SignedHeaders", "h"},
                            {"X-Amz-Signature", "s"},
                            {"X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"},
                            {"X-Amz-Security-Token", ""}});
  REQUIRE(take_query_headers(request, SignedBy::v4_query));
  CHECK(request.headers.empty());
}

TEST_CASE("a version 2 link carries the type and the MD5 of its body, too") {
  S3Request request = link({{"content-type", "text/plain"}, {"content-md5", "m"}});
  REQUIRE(take_query_headers(request, SignedBy::v2_query));
  CHECK(request.headers == Pairs{{"content-type", "text/plain"}, {"content-md5", "m"}});
  request = link({{"content-type", "text/plain"}});
  REQUIRE(take_query_headers(request, SignedBy::v4_query));
  CHECK(request.headers.empty());
}

TEST_CASE("what the signature does not cover is refused") {
  S3Request upper = link({{"X-Amz-Acl", "private"}});
  CHECK(code_of(take_query_headers(upper, SignedBy::v2_query)) == S3Code::AccessDenied);
  S3Request beside = link({{"x-amz-acl", "private"}});
  CHECK(code_of(take_query_headers(beside, SignedBy::v2_header)) == S3Code::AccessDenied);
}

TEST_CASE("a header and its parameter must agree, and a value must be able to be a header's") {
  S3Request same = link({{"x-amz-acl", "private"}}, {{"x-amz-acl", "private"}});
  CHECK(take_query_headers(same, SignedBy::v4_query));
  CHECK(same.headers.size() == 1);
  for (const Pairs& query :
       {Pairs{{"x-amz-acl", "public-read"}}, Pairs{{"x-amz-meta-a", "1\r\nSet-Cookie: x"}},
        Pairs{{"x-amz-meta-a b", "1"}}, Pairs{{"x-amz-meta-\n", "1"}},
        Pairs{{"x-amz-meta-a", "1"}, {"X-Amz-Meta-A", "2"}}}) {
    S3Request request = link(query, {{"x-amz-acl", "private"}});
    CHECK(code_of(take_query_headers(request, SignedBy::v4_query)) == S3Code::InvalidArgument);
  }
}

}  // namespace penstock
