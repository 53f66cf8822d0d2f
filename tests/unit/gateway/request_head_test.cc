#include "gateway/request_head.h"

#include <doctest/doctest.h>

#include <string>

#include "penstock/limits.h"

using namespace penstock;
using namespace std::string_literals;

namespace {
S3Result<S3Request> request_for(const std::string& target, const std::string& host = "localhost",
                                const std::vector<std::string>& domains = {}) {
  HttpHead head;
  head.method = "GET";
  head.target = target;
  head.fields = {{"Host", host}, {"X-Amz-Meta-A", "Value"}};
  return make_s3_request(head, domains);
}
}  // namespace

TEST_CASE("paths are decoded exactly once and never normalised") {
  struct Row {
    std::string target, bucket, key;
  };
  const Row rows[] = {
      {"/", "", ""},
      {"/bkt", "bkt", ""},
      {"/bkt/", "bkt", ""},
      {"/bkt/key", "bkt", "key"},
      {"/bkt//", "bkt", "/"},
      {"/bkt/a//b", "bkt", "a//b"},
      {"/bkt/./x", "bkt", "./x"},
      {"/bkt/../y", "bkt", "../y"},
      {"/bkt/a/..", "bkt", "a/.."},
      {"/bkt/%2E%2e/y", "bkt", "../y"},
      {"/bkt/%2541", "bkt", "%41"},
      {"/bkt/a+b%2Bc", "bkt", "a+b+c"},
      {"/bkt/a%20b", "bkt", "a b"},
      {"/bkt/a%2Fb", "bkt", "a/b"},
      {"/bkt/gr%C3%BC%C3%9F", "bkt", "gr\xc3\xbc\xc3\x9f"},
      {"/bkt/%01%0A", "bkt", "\x01\n"},
      {"/b%2Fk/x", "b/k", "x"},
      {"/bkt/k?versions", "bkt", "k"},
      {"*", "", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.target);
    const auto request = request_for(row.target);
    REQUIRE(request);
    CHECK(request.value().bucket == row.bucket);
    CHECK(request.value().key == row.key);
    CHECK(request.value().path == row.target.substr(0, row.target.find('?')));
  }
}

TEST_CASE("a path that cannot be decoded is an invalid URI") {
  for (const std::string target :
       {"/b/%", "/b/%4", "/b/%zz", "/b/%00", "/b%00", "/%zz", "//key", "/b/k?a=%", "/b/k?%g0",
        // no UTF-8: a stray byte, an overlong form, a surrogate, a cut sequence
        "/b/%ff", "/b/%c0%af", "/b/%ed%a0%80", "/b/%e2%82", "/b/?prefix=%ff", "/b/?%ff=1"}) {
    CAPTURE(target);
    const auto request = request_for(target);
    REQUIRE_FALSE(request);
    CHECK(request.error().code == S3Code::InvalidURI);
  }
}

TEST_CASE("query parameters keep their order and are decoded") {
  const auto request = request_for("/b?list-type=2&prefix=a%2Fb+c%2Bd&&acl&=x&empty=&eq=a=b");
  REQUIRE(request);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"list-type", "2"}, {"prefix", "a/b c+d"}, {"acl", ""},
      {"", "x"},          {"empty", ""},         {"eq", "a=b"}};
  CHECK(request.value().query == expected);
}

TEST_CASE("header names are lower case, values as sent") {
  const auto request = request_for("/b/k");
  REQUIRE(request);
  REQUIRE(request.value().headers.size() == 2);
  CHECK(request.value().headers[1].first == "x-amz-meta-a");
  CHECK(request.value().headers[1].second == "Value");
  CHECK(request.value().method == "GET");
}

TEST_CASE("a sub-domain of a domain names the bucket, any other host is path style") {
  const std::vector<std::string> domains = {"s3.local", "eu.s3.local"};
  struct Row {
    std::string host, target, bucket, key;
  };
  const Row rows[] = {
      {"bkt.s3.local", "/key", "bkt", "key"},       {"bkt.s3.local:9000", "/key", "bkt", "key"},
      {"BKT.S3.Local", "/Key", "bkt", "Key"},       {"a.b.s3.local", "/", "a.b", ""},
      {"bkt.s3.local", "//x", "bkt", "/x"},         {"bkt.s3.local", "/a/b", "bkt", "a/b"},
      {"bkt.eu.s3.local", "/k", "bkt", "k"},        {"s3.local", "/bkt/key", "bkt", "key"},
      {"eu.s3.local:80", "/bkt/key", "bkt", "key"}, {"xs3.local", "/bkt/key", "bkt", "key"},
      {"127.0.0.1:9000", "/bkt/key", "bkt", "key"}, {"[::1]:9000", "/bkt/key", "bkt", "key"},
      {".s3.local", "/bkt/key", "bkt", "key"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.host);
    const auto request = request_for(row.target, row.host, domains);
    REQUIRE(request);
    CHECK(request.value().bucket == row.bucket);
    CHECK(request.value().key == row.key);
  }
}

namespace {
S3Result<S3Request> request_with(std::vector<HttpField> fields, std::string_view target = "/b/k") {
  HttpHead head;
  head.method = "PUT";
  head.target = target;
  head.fields = std::move(fields);
  return make_s3_request(head, {});
}
}  // namespace

TEST_CASE("repeats of lists and of metadata are joined as signatures cover them") {
  const auto request = request_with({{"X-Amz-Meta-A", "1"},
                                     {"If-None-Match", "\"a\""},
                                     {"x-amz-meta-a", "2"},
                                     {"if-none-match", ""},
                                     {"Cache-Control", "no-cache"},
                                     {"cache-control", "no-store"}});
  REQUIRE(request);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"x-amz-meta-a", "1,2"}, {"if-none-match", "\"a\","}, {"cache-control", "no-cache,no-store"}};
  CHECK(request->headers == expected);
}

TEST_CASE("any other header that means something stands once") {
  for (const char* name :
       {"x-amz-copy-source", "X-Amz-Acl", "x-amz-date", "x-amz-new-thing", "Range", "Date",
        "Content-MD5", "Content-Type", "Content-Disposition", "Expires", "Authorization",
        "If-Modified-Since", "If-Range", "Origin", "x-amz-copy-source-if-match"}) {
    CAPTURE(name);
    const auto request = request_with({{name, "a"}, {"Host", "h"}, {name, "a"}});
    REQUIRE_FALSE(request);
    CHECK(request.error().code == S3Code::InvalidArgument);
  }
  const auto free = request_with({{"X-Forwarded-For", "a"}, {"X-Forwarded-For", "b"}});
  REQUIRE(free);
  CHECK(free->headers.size() == 2);
}

TEST_CASE("a query has as many parameters as a head has fields, and no more") {
  std::string query = "/b/k?p0";
  for (std::size_t i = 1; i < limits::kQueryParametersMax; ++i) query += "&p" + std::to_string(i);
  const auto most = request_with({}, query);
  REQUIRE(most);
  CHECK(most->query.size() == limits::kQueryParametersMax);
  const auto more = request_with({}, query + "&one=more");
  REQUIRE_FALSE(more);
  CHECK(more.error().code == S3Code::InvalidURI);
}

TEST_CASE("a query parameter stands once") {
  for (const char* query : {"partNumber=1&partNumber=2", "versionId=null&a&versionId=null",
                            "acl&acl", "X-Amz-Date=1&X-Amz-Date=1", "%61=1&a=1"}) {
    CAPTURE(query);
    const auto request = request_with({}, "/b/k?" + std::string(query));
    REQUIRE_FALSE(request);
    CHECK(request.error().code == S3Code::InvalidArgument);
  }
}
