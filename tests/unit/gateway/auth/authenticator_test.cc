#include "gateway/auth/authenticator.h"

#include <doctest/doctest.h>

#include <functional>

#include "tests/unit/gateway/auth/auth_world.h"

namespace penstock {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST_CASE("a header-signed request is let in as its account, first and again") {
  World world;
  S3Request request = plain_get();
  sign_header(request);
  for (int i = 0; i < 2; ++i) {
    const auto result = world.ask(request);
    REQUIRE(result);
    CHECK(result->principal.account_id == "owner-1");
    CHECK(result->principal.display_name == "One");
    CHECK(result->principal.access_key == kAccessKey);
    CHECK(result->payload.mode == PayloadMode::hashed);
    CHECK(hex_of(result->payload.sha256) == kEmptySha256);
  }
}

TEST_CASE("a kept signing key does not outlive another secret") {
  World world;
  S3Request request = plain_get();
  SignWith second;
  second.access_key = "AKIDSECOND";
  second.secret_key = "second-secret-key";
  sign_header(request, second);
  CHECK(world.code(request) == "ok");
  second.secret_key = "another-secret-key";
  sign_header(request, second);
  CHECK(world.code(request) == "SignatureDoesNotMatch");
}

TEST_CASE("a changed part of a signed request is refused") {
  const std::function<void(S3Request&)> changes[] = {
      [](S3Request& r) { r.method = "DELETE"; },
      [](S3Request& r) { r.path = "/bucket/key2"; },
      [](S3Request& r) { r.query.emplace_back("versionId", "1"); },
      [](S3Request& r) { set_header(r, "host", "other"); },
      [](S3Request& r) { set_header(r, "x-amz-meta-a", "2"); },
      [](S3Request& r) { set_header(r, "range", "bytes=0-1"); },
      [](S3Request& r) { r.headers.emplace_back("x-amz-meta-a", "2"); },
  };
  for (const bool in_query : {false, true}) {
    for (const auto& change : changes) {
      World world;
      S3Request request = in_query ? unsigned_get() : plain_get();
      set_header(request, "x-amz-meta-a", "1");
      set_header(request, "range", "bytes=0-9");
      if (in_query) {
        SignWith with;
        with.signed_headers = "host;range;x-amz-meta-a";
        presign(request, with);
      } else {
        sign_header(request);
      }
      REQUIRE(world.code(request) == "ok");
      change(request);
      CHECK(world.code(request) == "SignatureDoesNotMatch");
    }
  }
}

TEST_CASE("the payload hash is signed, whatever it says") {
  World world;
  for (const std::string_view hash :
       {"UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}) {
    S3Request request = plain_get();
    sign_header(request);
    set_header(request, "x-amz-content-sha256", std::string(hash));
    CHECK(world.code(request) == "SignatureDoesNotMatch");
    sign_header(request);
    CHECK(world.code(request) == "ok");
    // The value stands in the last line of what is signed, so the header itself may be left out of
    // the list.
    SignWith with;
    with.signed_headers = "host;x-amz-date";
    sign_header(request, with);
    CHECK(world.code(request) == "ok");
  }
}

TEST_CASE("modes with signed chunks get a signer that starts at the request's signature") {
  World world;
  S3Request request = plain_get();
  set_header(request, "x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
  const std::string seed = sign_header(request);
  const auto result = world.ask(request);
  REQUIRE(result);
  REQUIRE(result->payload.signer);
  const ChunkSigner expected(v4_signing_key(kSecretKey, "20130524", "us-east-1", "s3"),
                             std::string(kTimestamp), "20130524/us-east-1/s3/aws4_request", seed);
  CHECK(result->payload.signer->next_chunk(sha256({})) == expected.next_chunk(sha256({})));
}

TEST_CASE("a wrong secret is told apart from an unknown key, and says what was signed") {
  World world;
  SignWith with;
  with.secret_key = "not-the-secret";
  S3Request request = plain_get();
  const std::string signature = sign_header(request, with);
  const auto wrong = world.ask(request);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == S3Code::SignatureDoesNotMatch);
  CHECK(detail(wrong.error(), "AWSAccessKeyId") == kAccessKey);
  CHECK(detail(wrong.error(), "SignatureProvided") == signature);
  CHECK(detail(wrong.error(), "StringToSign").starts_with("AWS4-HMAC-SHA256\n20130524T000000Z\n"));
  CHECK(detail(wrong.error(), "CanonicalRequest").starts_with("GET\n/bucket/key\n"));
  with.access_key = "AKIDUNKNOWN";
  sign_header(request, with);
  const auto unknown = world.ask(request);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == S3Code::InvalidAccessKeyId);
  CHECK(detail(unknown.error(), "AWSAccessKeyId") == "AKIDUNKNOWN");
}

TEST_CASE("signatures that are no signature are refused") {
  for (const std::string_view bad : {"0", "zz", "00", "é", "0000000000000000000000000000000000"}) {
    World world;
    S3Request request = unsigned_get();
    presign(request);
    request.query.back().second = bad;
    CHECK(world.code(request) == "SignatureDoesNotMatch");
  }
}

TEST_CASE("the anonymous are refused") {
  World world;
  CHECK(world.code(plain_get()) == "AccessDenied");
  S3Request request = plain_get();
  set_header(request, "authorization", "");
  CHECK(world.code(request) == "AccessDenied");
}

TEST_CASE("header and query at once are refused") {
  World world;
  S3Request request = plain_get();
  presign(request);
  sign_header(request);
  CHECK(world.code(request) == "InvalidArgument");
  S3Request v2 = plain_get();
  v2.query = {{"AWSAccessKeyId", "a"}, {"Signature", "b"}, {"Expires", "1"}};
  sign_header(v2);
  CHECK(world.code(v2) == "InvalidArgument");
  S3Request both_queries = unsigned_get();
  both_queries.query = v2.query;
  presign(both_queries);
  CHECK(world.code(both_queries) == "InvalidArgument");
  S3Request twice = plain_get();
  sign_header(twice);
  twice.headers.push_back(twice.headers.back());
  CHECK(world.code(twice) == "InvalidArgument");
}

TEST_CASE("malformed Authorization headers are refused with S3's codes") {
  const std::pair<std::string, std::string> rows[] = {
      {"Basic dXNlcjpwYXNz", "InvalidArgument"},
      {"AWS4-ECDSA-P256-SHA256 Credential=a", "InvalidArgument"},
      {"AWS4-HMAC-SHA256", "AuthorizationHeaderMalformed"},
      {"AWS4-HMAC-SHA256 ,", "AuthorizationHeaderMalformed"},
      {"AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request", "AuthorizationHeaderMalformed"},
      {"AWS4-HMAC-SHA256 Credential=a,SignedHeaders=host,Signature=0",
       "AuthorizationHeaderMalformed"},
      {"AWS4-HMAC-SHA256 Credential=/20130524/r/s3/aws4_request,SignedHeaders=host,Signature=0",
       "AuthorizationHeaderMalformed"},
      {"AWS4-HMAC-SHA256 Credential=a/2013/r/s3/aws4_request,SignedHeaders=host,Signature=0",
       "AuthorizationHeaderMalformed"},
      {"AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request,SignedHeaders=host,Signature=0,"
       "Signature=1",
       "AuthorizationHeaderMalformed"},
      {"AWS", "InvalidArgument"},
      {"AWS HAHAHA", "InvalidArgument"},
  };
  for (const auto& [authorization, code] : rows) {
    CAPTURE(authorization);
    World world;
    S3Request request = plain_get();
    set_header(request, "x-amz-date", std::string(kTimestamp));
    set_header(request, "authorization", authorization);
    CHECK(world.code(request) == code);
  }
}

TEST_CASE("components of Authorization may follow each other without a blank") {
  World world;
  S3Request request = plain_get();
  sign_header(request);
  std::string text = *request.header("authorization");
  for (std::size_t at; (at = text.find(", ")) != std::string::npos;) text.erase(at + 1, 1);
  set_header(request, "authorization", text);
  CHECK(world.code(request) == "ok");
}

TEST_CASE("a request needs a valid date, near the server's") {
  const std::pair<std::string, std::string> rows[] = {
      {"", "AccessDenied"},
      {"Bad Date", "AccessDenied"},
      {"19500707T215304Z", "AccessDenied"},
      {"20300707T215304Z", "RequestTimeTooSkewed"},
      {"99990707T215304Z", "RequestTimeTooSkewed"},
      {"20130524T001501Z", "RequestTimeTooSkewed"},
      {"20130523T234459Z", "RequestTimeTooSkewed"},
      {"20130524T001500Z", "ok"},
      {"20130523T234500Z", "ok"},
  };
  for (const auto& [date, code] : rows) {
    CAPTURE(date);
    World world;
    S3Request request = plain_get();
    SignWith with;
    if (date.size() == 16) with.timestamp = date;
    sign_header(request, with);
    set_header(request, "x-amz-date", date);
    CHECK(world.code(request) == code);
    remove_header(request, "x-amz-date");
    CHECK(world.code(request) == "AccessDenied");
  }
}

TEST_CASE("a Date header may stand in for x-amz-date") {
  World world;
  S3Request request = plain_get();
  set_header(request, "date", "Fri, 24 May 2013 00:00:00 GMT");
  SignWith with;
  with.signed_headers = "date;host;x-amz-content-sha256";
  sign_header(request, with);
  remove_header(request, "x-amz-date");
  CHECK(world.code(request) == "ok");
}

TEST_CASE("the skew error tells both times") {
  World world;
  world.clock.set(world.clock.wall() + 16min);
  S3Request request = plain_get();
  sign_header(request);
  const auto result = world.ask(request);
  REQUIRE_FALSE(result);
  CHECK(detail(result.error(), "RequestTime") == kTimestamp);
  CHECK(detail(result.error(), "ServerTime") == "2013-05-24T00:16:00.000Z");
  CHECK(detail(result.error(), "MaxAllowedSkewMilliseconds") == "900000");
}

TEST_CASE("the scope must be of the day, of S3 and, if strict, of the region") {
  const std::pair<std::string, std::string> rows[] = {
      {"20130525/us-east-1/s3/aws4_request", "malformed"},
      {"20130524/us-east-1/ec2/aws4_request", "malformed"},
      {"20130524/us-east-1/s3/aws5_request", "malformed"},
      {"20130524/mars/s3/aws4_request", "malformed"},
      {"20130524/us-east-1/s3/aws4_request", "ok"},
  };
  for (const auto& [scope, outcome] : rows) {
    for (const bool in_query : {false, true}) {
      CAPTURE(scope);
      World world({"us-east-1", true});
      S3Request request = in_query ? unsigned_get() : plain_get();
      const std::string right = "20130524/us-east-1/s3/aws4_request";
      std::string code = "ok";
      if (in_query) {
        presign(request);
        std::string& credential = request.query[1].second;
        credential.replace(credential.find(right), right.size(), scope);
        if (outcome != "ok") code = "AuthorizationQueryParametersError";
      } else {
        sign_header(request);
        std::string& text = request.headers.back().second;
        text.replace(text.find(right), right.size(), scope);
        if (outcome != "ok") code = "AuthorizationHeaderMalformed";
      }
      const auto result = world.ask(request);
      CHECK((result ? "ok" : std::string(code_name(result.error().code))) == code);
      if (scope.find("mars") != std::string::npos) {
        CHECK(detail(result.error(), "Region") == "us-east-1");
      }
    }
  }
}

TEST_CASE("any region will do unless the server is strict") {
  World world;
  S3Request request = plain_get();
  SignWith with;
  with.region = "eu-central-1";
  sign_header(request, with);
  CHECK(world.code(request) == "ok");
}

TEST_CASE("host and all x-amz headers must be signed") {
  struct Row {
    std::string name, value, code;
  };
  const Row rows[] = {
      {"x-amz-copy-source", "/other/secret", "AccessDenied"},
      {"x-amz-acl", "public-read", "AccessDenied"},
      {"x-amz-meta-a", "b", "AccessDenied"},
      {"x-amz-server-side-encryption", "AES256", "AccessDenied"},
      {"x-amz-security-token", "t", "AccessDenied"},
      {"x-amz-user-agent", "aws-sdk-js/3", "ok"},
      {"amz-sdk-invocation-id", "i", "ok"},
      {"amz-sdk-request", "attempt=1", "ok"},
      {"user-agent", "x", "ok"},
      {"content-type", "text/plain", "ok"},
      {"content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==", "ok"},
      {"x-amzn-trace-id", "Root=1", "ok"},
  };
  for (const Row& row : rows) {
    for (const bool in_query : {false, true}) {
      CAPTURE(row.name);
      World world;
      S3Request request = in_query ? unsigned_get() : plain_get();
      in_query ? presign(request) : static_cast<void>(sign_header(request));
      request.headers.emplace_back(row.name, row.value);
      const auto result = world.ask(request);
      CHECK((result ? "ok" : std::string(code_name(result.error().code))) == row.code);
      if (!result) {
        CHECK(result.error().message ==
              "There were headers present in the request which were not signed");
        CHECK(detail(result.error(), "HeadersNotSigned") == row.name);
      }
    }
  }
  for (const bool in_query : {false, true}) {
    World world;
    S3Request request = in_query ? unsigned_get() : plain_get();
    SignWith with;
    with.signed_headers = in_query ? "range" : "x-amz-content-sha256;x-amz-date";
    set_header(request, "range", "bytes=0-1");
    in_query ? presign(request, with) : static_cast<void>(sign_header(request, with));
    CHECK(world.code(request) == "AccessDenied");
  }
}

TEST_CASE("a signed header that is missing or listed twice is refused") {
  World world;
  S3Request request = plain_get();
  set_header(request, "range", "bytes=0-1");
  sign_header(request);
  remove_header(request, "range");
  CHECK(world.code(request) == "SignatureDoesNotMatch");
  SignWith with;
  with.signed_headers = "host;host;x-amz-content-sha256;x-amz-date";
  sign_header(request, with);
  CHECK(world.code(request) == "SignatureDoesNotMatch");
}

TEST_CASE("the payload hash must be one that is known") {
  for (const std::string_view bad :
       {"", "unsigned-payload", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
        "STREAMING-UNSIGNED-PAYLOAD", "abcd"}) {
    World world;
    S3Request request = plain_get();
    set_header(request, "x-amz-content-sha256", std::string(bad));
    sign_header(request);
    CHECK(world.code(request) == "InvalidArgument");
  }
  World world;
  S3Request request = plain_get();
  sign_header(request);
  S3Request twice = request;
  twice.headers.emplace_back("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
  CHECK(world.code(twice) == "InvalidArgument");
  remove_header(request, "x-amz-content-sha256");
  CHECK(world.code(request) == "InvalidRequest");
}

TEST_CASE("a path is verified as sent, or as it would be fully escaped") {
  struct Row {
    std::string sent, signed_as, code;
  };
  const Row rows[] = {
      {"/b/./x", "/b/./x", "ok"},
      {"/b/../y", "/b/../y", "ok"},
      {"/b/a//b", "/b/a//b", "ok"},
      {"/b/%2541", "/b/%2541", "ok"},
      {"/b/q'q(1)", "/b/q%27q%281%29", "ok"},
      {"/b/a%2fb", "/b/a%2fb", "ok"},
      {"/b/%7Ex", "/b/~x", "ok"},
      {"/b/x", "/b/y", "SignatureDoesNotMatch"},
      {"/b/a/../y", "/b/y", "SignatureDoesNotMatch"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.sent);
    World world;
    S3Request request = plain_get();
    request.path = row.sent;
    SignWith with;
    with.path = row.signed_as;
    sign_header(request, with);
    CHECK(world.code(request) == row.code);
  }
}

TEST_CASE("the cache of signing keys is bounded and keeps the newest") {
  SigningKeyCache cache(10);
  const auto account = std::make_shared<const Account>();
  for (int i = 0; i < 100; ++i) {
    const std::string credential = "k/" + std::to_string(i);
    cache.keep(credential, account, HmacSha256(as_bytes(credential)));
    CHECK(cache.size() <= 10);
    CHECK(cache.find(credential, *account));
  }
  const Account other;
  CHECK_FALSE(cache.find("k/99", other));
}

}  // namespace
}  // namespace penstock
