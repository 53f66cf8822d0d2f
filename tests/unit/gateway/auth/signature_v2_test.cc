#include "gateway/auth/signature_v2.h"

#include <doctest/doctest.h>

#include "gateway/auth/authenticator.h"
#include "tests/unit/gateway/auth/signing.h"

namespace penstock {
namespace {

using namespace testing;

// The examples of the S3 User Guide, "Signing and authenticating REST requests", use this secret.
constexpr std::string_view kV2Secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

S3Request bucket_request(std::string method, std::string path, std::string key, Pairs query,
                         Pairs headers) {
  S3Request request =
      sent_request(std::move(method), std::move(path), std::move(query), std::move(headers));
  request.bucket = "awsexamplebucket1";
  request.key = std::move(key);
  return request;
}

TEST_CASE("published version 2 signatures are reproduced") {
  struct Row {
    S3Request request;
    std::string signature;
  };
  const std::string date = "Tue, 27 Mar 2007 19:36:42 +0000";
  const std::string host = "awsexamplebucket1.us-west-1.s3.amazonaws.com";
  const Row rows[] = {
      {bucket_request("GET", "/photos/puppy.jpg", "photos/puppy.jpg", {},
                      {{"host", host}, {"date", date}}),
       "qgk2+6Sv9/oM7G3qLEjTH1a1l1g="},
      {bucket_request("PUT", "/photos/puppy.jpg", "photos/puppy.jpg", {},
                      {{"host", host},
                       {"content-type", "image/jpeg"},
                       {"content-length", "94328"},
                       {"date", "Tue, 27 Mar 2007 21:15:45 +0000"}}),
       "iqRzw+ileNPu1fhspnRs8nOjjIA="},
      {bucket_request("GET", "/", "",
                      {{"prefix", "photos"}, {"max-keys", "50"}, {"marker", "puppy"}},
                      {{"host", host}, {"date", "Tue, 27 Mar 2007 19:42:41 +0000"}}),
       "m0WP8eCtspQl5Ahe6L1SozdX9YA="},
      {bucket_request("GET", "/", "", {{"acl", ""}},
                      {{"host", host}, {"date", "Tue, 27 Mar 2007 19:44:46 +0000"}}),
       "82ZHiFIjc+WbcwFKGUVEQspPn+0="},
  };
  for (const Row& row : rows) {
    V2Claim claim;
    claim.date = *row.request.header("date");
    CHECK(v2_signature(kV2Secret, v2_string_to_sign(row.request, claim, {false, true})) ==
          row.signature);
  }
}

class World {
 public:
  World()
      : credentials(*CredentialStore::make(
            {{std::string(kAccessKey), std::string(kSecretKey), "", "", ""}})),
        clock(WallTime(std::chrono::seconds(1'700'000'000))),
        authenticator(credentials, clock, {}) {}
  std::string code(const S3Request& request) {
    const auto result = authenticator.authenticate(request);
    return result ? "ok" : std::string(code_name(result.error().code));
  }
  CredentialStore credentials;
  SetClock clock;
  Authenticator authenticator;
};

// As boto3 presigns by default.
void presign_v2(S3Request& request, V2Spelling spelling = {}, std::string expires = "1700000600") {
  request.query.emplace_back("AWSAccessKeyId", kAccessKey);
  request.query.emplace_back("Expires", expires);
  V2Claim claim;
  claim.in_query = true;
  claim.date = expires;
  const std::string to_sign = v2_string_to_sign(request, claim, spelling);
  request.query.emplace_back("Signature", v2_signature(kSecretKey, to_sign));
}

S3Request put_request() {
  return bucket_request("PUT", "/awsexamplebucket1/a%20b", "a b", {}, {{"host", "127.0.0.1:9000"}});
}

TEST_CASE("a version 2 link is let in until it expires") {
  World world;
  S3Request request = put_request();
  presign_v2(request);
  CHECK(world.code(request) == "ok");
  world.clock.set(WallTime(std::chrono::seconds(1'700'000'600)));
  CHECK(world.code(request) == "AccessDenied");
}

TEST_CASE("version 2 can be switched off, and says what to use") {
  World world;
  Authenticator strict(world.credentials, world.clock, {"us-east-1", false, false});
  S3Request link = put_request();
  presign_v2(link);
  S3Request header = put_request();
  set_header(header, "authorization", "AWS " + std::string(kAccessKey) + ":signature");
  for (const S3Request& request : {link, header}) {
    const auto refused = strict.authenticate(request);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == S3Code::InvalidRequest);
    CHECK(refused.error().message.find("AWS4-HMAC-SHA256") != std::string::npos);
  }
}

TEST_CASE("what boto3 presigns into the query counts as the header that it stands for") {
  World world;
  S3Request request = put_request();
  request.query = {{"content-type", "text/plain"}, {"x-amz-acl", "private"}};
  presign_v2(request);
  CHECK(world.code(request) == "ok");
  set_header(request, "content-type", "text/plain");
  set_header(request, "x-amz-acl", "private");
  CHECK(world.code(request) == "ok");
  set_header(request, "x-amz-acl", "public-read");
  CHECK(world.code(request) == "SignatureDoesNotMatch");
}

TEST_CASE("headers that version 2 covers cannot be added") {
  for (const std::string_view name : {"x-amz-copy-source", "x-amz-meta-a", "x-amz-content-sha256",
                                      "content-type", "content-md5"}) {
    World world;
    S3Request request = put_request();
    presign_v2(request);
    set_header(request, name, "UNSIGNED-PAYLOAD");
    CHECK(world.code(request) == "SignatureDoesNotMatch");
  }
}

TEST_CASE("sub-resources and overrides are covered, with and without an equals sign") {
  for (const bool empty_values : {false, true}) {
    World world;
    S3Request request = put_request();
    request.query = {{"uploads", ""}};
    presign_v2(request, {empty_values, false});
    CHECK(world.code(request) == "ok");
  }
  for (const std::string_view name : {"uploadId", "acl", "response-content-type", "versionId"}) {
    World world;
    S3Request request = put_request();
    presign_v2(request);
    request.query.emplace_back(name, "x");
    CHECK(world.code(request) == "SignatureDoesNotMatch");
  }
}

TEST_CASE("a virtual host's bucket is part of the resource") {
  World world;
  S3Request request = bucket_request("GET", "/awsexamplebucket1/b", "awsexamplebucket1/b", {},
                                     {{"host", "awsexamplebucket1.example.com"}});
  presign_v2(request);
  CHECK(world.code(request) == "ok");
  // A link for bucket/b does not open bucket/bucket/b: the same path under a virtual host.
  S3Request path_style = bucket_request("GET", "/awsexamplebucket1/b", "b", {}, {{"host", "x"}});
  path_style.query = request.query;
  CHECK(world.code(path_style) == "SignatureDoesNotMatch");
}

TEST_CASE("a bucket is signed with or without the slash behind it, whatever is sent") {
  struct Row {
    std::string path, host;
  };
  const Row rows[] = {{"/awsexamplebucket1", "127.0.0.1"},
                      {"/awsexamplebucket1/", "127.0.0.1"},
                      {"/", "awsexamplebucket1.example.com"}};
  for (const Row& row : rows) {
    for (const std::string resource : {"/awsexamplebucket1", "/awsexamplebucket1/"}) {
      CAPTURE(row.path);
      CAPTURE(resource);
      World world;
      S3Request request =
          bucket_request("GET", row.path, "", {{"uploads", ""}}, {{"host", row.host}});
      request.query.emplace_back("AWSAccessKeyId", kAccessKey);
      request.query.emplace_back("Expires", "1700000600");
      const std::string text = "GET\n\n\n1700000600\n" + resource + "?uploads";
      request.query.emplace_back("Signature", v2_signature(kSecretKey, text));
      CHECK(world.code(request) == "ok");
      request.query.front().first = "acl";
      CHECK(world.code(request) == "SignatureDoesNotMatch");
    }
  }
  // A slash that is a key is signed as such.
  World world;
  S3Request key = bucket_request("GET", "/awsexamplebucket1//", "/", {}, {{"host", "h"}});
  presign_v2(key);
  CHECK(world.code(key) == "ok");
}

TEST_CASE("malformed version 2 queries are refused") {
  struct Row {
    std::string name, value, code;
  };
  const Row rows[] = {
      {"Expires", "", "AccessDenied"},
      {"Expires", "soon", "AccessDenied"},
      {"Expires", "-5", "AccessDenied"},
      {"Expires", "99999999999999999999", "AccessDenied"},
      {"Expires", "1700000601", "SignatureDoesNotMatch"},
      {"AWSAccessKeyId", "AKIDUNKNOWN", "InvalidAccessKeyId"},
      {"AWSAccessKeyId", "", "AccessDenied"},
      {"Signature", "", "AccessDenied"},
      {"Signature", "AAAA", "SignatureDoesNotMatch"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.value);
    World world;
    S3Request request = put_request();
    presign_v2(request);
    S3Request twice = request;
    for (auto& [name, value] : request.query) {
      if (name == row.name) value = row.value;
    }
    CHECK(world.code(request) == row.code);
    twice.query.emplace_back(row.name, *twice.query_value(row.name));
    CHECK(world.code(twice) == "InvalidArgument");
  }
}

TEST_CASE("a version 2 Authorization header is let in near its date") {
  const std::pair<std::string, std::string> rows[] = {
      {"Tue, 14 Nov 2023 22:13:20 GMT", "ok"},
      {"Tue, 14 Nov 2023 22:33:20 GMT", "RequestTimeTooSkewed"},
      {"Bad Date", "AccessDenied"},
      {"", "AccessDenied"},
  };
  for (const std::string name : {"date", "x-amz-date"}) {
    for (const auto& [date, code] : rows) {
      World world;
      S3Request request = put_request();
      set_header(request, name, date);
      V2Claim claim;
      if (name == "date") claim.date = *request.header("date");
      const std::string signature = v2_signature(kSecretKey, v2_string_to_sign(request, claim, {}));
      set_header(request, "authorization", "AWS " + std::string(kAccessKey) + ":" + signature);
      CHECK(world.code(request) == code);
      if (code == "ok") {
        request.method = "DELETE";
        CHECK(world.code(request) == "SignatureDoesNotMatch");
      }
    }
  }
}

}  // namespace
}  // namespace penstock
