#include "gateway/s3/copy_source.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {

TEST_CASE("a copy source is decoded once, with or without its first slash") {
  struct Row {
    std::string header, bucket, key;
  };
  const Row rows[] = {
      {"b/k", "b", "k"},
      {"/b/k", "b", "k"},
      {"b//k", "b", "/k"},
      {"b/a/b/c", "b", "a/b/c"},
      {"b/a%20b%2Bc+d", "b", "a b+c+d"},
      {"b/anyfilename%2525.txt", "b", "anyfilename%25.txt"},
      {"b%2Fk", "b", "k"},
      {"b/%3FversionId", "b", "?versionId"},
      {"b/k?versionId=null", "b", "k"},
      {"b/what?", "b", "what?"},
      {"b/../other/k", "b", "../other/k"},
      {"b/%01%C3%BF", "b", "\x01\xC3\xBF"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.header);
    const auto source = parse_copy_source(row.header);
    REQUIRE(source);
    CHECK(source->bucket == row.bucket);
    CHECK(source->key == row.key);
  }
}

TEST_CASE("a copy source that names no object is refused") {
  for (const char* header : {"", "/", "//", "b", "/b", "b/", "/b/", "//k", "b/%4", "%zz/k", "b/%ff",
                             "b/k%c0%80", "b/%00", "b/\xff"}) {
    CAPTURE(header);
    CHECK(code_of(parse_copy_source(header)) == S3Code::InvalidArgument);
  }
  CHECK(code_of(parse_copy_source("b/k?versionId=")) == S3Code::InvalidArgument);
  CHECK(code_of(parse_copy_source("b/k?versionId=abc")) == S3Code::NoSuchVersion);
  CHECK(code_of(parse_copy_source("arn:aws:s3:::b/k")) == S3Code::NotImplemented);
}

TEST_CASE("keys of copy sources end at 1,024 bytes") {
  CHECK(parse_copy_source("b/" + std::string(1024, 'k')));
  CHECK(code_of(parse_copy_source("b/" + std::string(1025, 'k'))) == S3Code::KeyTooLongError);
}

}  // namespace penstock
