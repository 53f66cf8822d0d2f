#include "gateway/s3/s3_error.h"

#include <doctest/doctest.h>

namespace penstock {

TEST_CASE("codes carry S3's status and name") {
  struct Row {
    S3Code code;
    int status;
    std::string_view name;
  };
  for (const Row& row :
       {Row{S3Code::NoSuchKey, 404, "NoSuchKey"}, Row{S3Code::NoSuchUpload, 404, "NoSuchUpload"},
        Row{S3Code::AccessDenied, 403, "AccessDenied"}, Row{S3Code::BadDigest, 400, "BadDigest"},
        Row{S3Code::BucketNotEmpty, 409, "BucketNotEmpty"},
        Row{S3Code::InvalidRange, 416, "InvalidRange"},
        Row{S3Code::InvalidPartNumber, 416, "InvalidPartNumber"},
        Row{S3Code::MissingContentLength, 411, "MissingContentLength"},
        Row{S3Code::MethodNotAllowed, 405, "MethodNotAllowed"},
        Row{S3Code::PreconditionFailed, 412, "PreconditionFailed"},
        Row{S3Code::NotImplemented, 501, "NotImplemented"}, Row{S3Code::SlowDown, 503, "SlowDown"},
        Row{S3Code::InternalError, 500, "InternalError"},
        Row{S3Code::InsufficientStorage, 507, "InsufficientStorage"},
        Row{S3Code::NotModified, 304, "NotModified"}}) {
    CHECK(http_status(row.code) == row.status);
    CHECK(code_name(row.code) == row.name);
  }
}

TEST_CASE("every code has a name, a status of a failure and a message") {
  for (int code = 0; code <= static_cast<int>(S3Code::NotModified); ++code) {
    const auto value = static_cast<S3Code>(code);
    CAPTURE(code);
    CHECK_FALSE(code_name(value).empty());
    CHECK(http_status(value) >= 304);
    CHECK_FALSE(error_message(s3_error(value)).empty());
    if (code_name(value) == "InternalError") CHECK(value == S3Code::InternalError);
  }
}

TEST_CASE("an outcome that cannot be told is a 503, never a conflict") {
  for (const Errc code :
       {Errc::unavailable, Errc::timeout, Errc::overloaded, Errc::busy, Errc::unknown_outcome,
        Errc::refused, Errc::stale_epoch, Errc::shutting_down, Errc::stale_bucket}) {
    CHECK(to_s3(fail(code, "")).code == S3Code::SlowDown);
  }
  CHECK(to_s3(fail(Errc::not_found, "")).code == S3Code::NoSuchKey);
  CHECK(to_s3(fail(Errc::not_found, ""), S3Code::NoSuchUpload).code == S3Code::NoSuchUpload);
  CHECK(to_s3(fail(Errc::upload_not_open, "")).code == S3Code::NoSuchUpload);
  CHECK(to_s3(fail(Errc::full, "")).code == S3Code::InsufficientStorage);
  CHECK(to_s3(fail(Errc::corrupt, "")).code == S3Code::InternalError);
  CHECK(to_s3(fail(Errc::stale_bucket, "")).stale_bucket);
  CHECK_FALSE(to_s3(fail(Errc::busy, "")).stale_bucket);
}

TEST_CASE("the XML of an error holds code, message, details, resource and both ids, escaped") {
  S3Error error = s3_error(S3Code::NoSuchKey);
  error.details.emplace_back("Key", "a<b");
  CHECK(error_xml(error, "/bucket/a<b", "REQ", "HOST") ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code>"
        "<Message>The specified key does not exist.</Message><Key>a&lt;b</Key>"
        "<Resource>/bucket/a&lt;b</Resource><RequestId>REQ</RequestId><HostId>HOST</HostId>"
        "</Error>");
}

TEST_CASE("an error tells at most 4 KiB of what the client sent") {
  for (const char* text : {"a", "&", "\xc3\xa9", "\x01", "\xff", "a&\xe2\x82\xac"}) {
    CAPTURE(text);
    std::string much;
    while (much.size() < 100'000) much += text;
    S3Error error = s3_error(S3Code::SignatureDoesNotMatch, much);
    error.details.emplace_back("StringToSign", "AWS4-HMAC-SHA256\nshort");
    error.details.emplace_back("CanonicalRequest", much);
    const auto xml = error_xml(error, "/b/k", "r", "h");
    CHECK(xml.size() < 4096 + 6 * 1024 + 512);
    CHECK(xml.find("<StringToSign>AWS4-HMAC-SHA256&#xa;short</StringToSign>") != std::string::npos);
    CHECK(xml.find("<Resource>/b/k</Resource>") != std::string::npos);
    CHECK(error_xml(s3_error(S3Code::NoSuchKey), much, "r", "h").size() < 4096 + 512);
  }
  const std::string key(3000, 'k');
  CHECK(error_xml(s3_error(S3Code::NoSuchKey), key, "r", "h").find("<Resource>" + key + "<") !=
        std::string::npos);
}

TEST_CASE("a failed condition is named and worded as clients look for it") {
  const auto xml = error_xml(precondition_failed("If-None-Match"), "/b/k", "r", "h");
  CHECK(xml.find("At least one of the pre-conditions you specified did not hold") !=
        std::string::npos);
  CHECK(xml.find("<Condition>If-None-Match</Condition>") != std::string::npos);
}

TEST_CASE("the context of an internal failure stays inside") {
  const auto xml = error_xml(to_s3(fail(Errc::corrupt, "volume 7 slot 3")), "/b/k", "r", "h");
  CHECK(xml.find("volume") == std::string::npos);
}

}  // namespace penstock
