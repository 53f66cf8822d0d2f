#include "gateway/s3/object_headers.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {
namespace {
const std::string* sent(const S3Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return &value;
  }
  return nullptr;
}
}  // namespace

TEST_CASE("aws-chunked is dropped wherever it stands, the rest stays as sent") {
  CHECK(content_encoding("aws-chunked") == "");
  CHECK(content_encoding("aws-chunked, AWS-Chunked") == "");
  CHECK(content_encoding("gzip,aws-chunked") == "gzip");
  CHECK(content_encoding("gzip, aws-chunked") == "gzip");
  CHECK(content_encoding("aws-chunked,gzip") == "gzip");
  CHECK(content_encoding("deflate, aws-chunked, gzip") == "deflate, gzip");
  CHECK(content_encoding("deflate, gzip") == "deflate, gzip");
  CHECK(content_encoding("deflate,gzip") == "deflate,gzip");
}

TEST_CASE("an object keeps its own headers and no others") {
  const auto stored = stored_headers(with_headers({{"content-type", "text/plain"},
                                                   {"content-length", "3"},
                                                   {"content-encoding", "aws-chunked"},
                                                   {"cache-control", "no-cache"},
                                                   {"x-amz-meta-a", "1"},
                                                   {"x-amz-meta-a", "2"},
                                                   {"x-amz-meta-empty", ""},
                                                   {"x-amz-meta-u", "\xC3\xA9"},
                                                   {"x-amz-date", "d"},
                                                   {"x-amz-storage-class", "STANDARD"}}));
  REQUIRE(stored);
  CHECK(*stored == StoredHeaders{{"content-type", "text/plain"},
                                 {"cache-control", "no-cache"},
                                 {"x-amz-meta-a", "1,2"},
                                 {"x-amz-meta-empty", ""},
                                 {"x-amz-meta-u", "\xC3\xA9"}});
  S3Response response;
  set_stored_headers(response, *stored);
  REQUIRE(sent(response, "Content-Type") != nullptr);
  CHECK(*sent(response, "Content-Type") == "text/plain");
  CHECK(*sent(response, "Cache-Control") == "no-cache");
  CHECK(*sent(response, "x-amz-meta-a") == "1,2");
}

TEST_CASE("an object without a type is a stream of bytes") {
  S3Response response;
  set_stored_headers(response, *stored_headers(with_headers({{"content-type", ""}})));
  REQUIRE(sent(response, "Content-Type") != nullptr);
  CHECK(*sent(response, "Content-Type") == "binary/octet-stream");
}

TEST_CASE("user metadata ends at 2 KiB of names and values") {
  const auto metadata = [](std::size_t value) {
    return with_headers({{"x-amz-meta-name", std::string(value, 'v')}});
  };
  CHECK(stored_headers(metadata(2044)));
  CHECK(code_of(stored_headers(metadata(2045))) == S3Code::MetadataTooLarge);
}

TEST_CASE("the headers of what makes an object end at 8 KiB together") {
  const auto section = [](std::size_t value) {
    return with_headers({{"cache-control", std::string(value, 'v')}, {"x-other", "12345678"}});
  };
  constexpr std::size_t kFrame = 13 + 4 + 7 + 8 + 4;
  CHECK(stored_headers(section(8192 - kFrame)));
  CHECK(code_of(stored_headers(section(8193 - kFrame))) == S3Code::RequestHeaderSectionTooLarge);
}

TEST_CASE("what is not served is refused and not passed over") {
  struct Row {
    std::pair<std::string, std::string> header;
    S3Code code;
  };
  for (const Row& row :
       {Row{{"x-amz-server-side-encryption", "AES256"}, S3Code::NotImplemented},
        Row{{"x-amz-server-side-encryption-customer-key", "k"}, S3Code::NotImplemented},
        Row{{"x-amz-tagging", "a=b"}, S3Code::NotImplemented},
        Row{{"x-amz-write-offset-bytes", "3"}, S3Code::NotImplemented},
        Row{{"x-amz-acl", "public-read"}, S3Code::NotImplemented},
        Row{{"x-amz-acl", "authenticated-read"}, S3Code::NotImplemented},
        Row{{"x-amz-acl", "public-ready"}, S3Code::InvalidArgument},
        Row{{"x-amz-grant-read", "id=x"}, S3Code::NotImplemented},
        Row{{"x-amz-object-lock-mode", "GOVERNANCE"}, S3Code::InvalidRequest},
        Row{{"x-amz-object-lock-legal-hold", "ON"}, S3Code::InvalidRequest},
        Row{{"x-amz-copy-source-server-side-encryption-customer-key", "k"}, S3Code::InvalidRequest},
        Row{{"x-amz-storage-class", "GLACIER"}, S3Code::InvalidStorageClass},
        Row{{"x-amz-storage-class", "standard"}, S3Code::InvalidStorageClass}}) {
    CAPTURE(row.header.first);
    CHECK(code_of(check_object_write_headers(with_headers({row.header}))) == row.code);
  }
  CHECK(check_object_write_headers(with_headers({{"x-amz-acl", "private"},
                                                 {"x-amz-tagging", ""},
                                                 {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                                 {"x-amz-meta-x", "y"}})));
  CHECK(code_of(check_object_read_headers(
            with_headers({{"x-amz-server-side-encryption-customer-algorithm", "AES256"}}))) ==
        S3Code::InvalidRequest);
  CHECK(code_of(check_object_read_headers(with_headers(
            {{"x-amz-server-side-encryption", "AES256"}}))) == S3Code::InvalidArgument);
}

}  // namespace penstock
