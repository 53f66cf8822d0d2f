// The store's own authenticator judges: what it lets in is signed as S3 wants it.
#include "gateway/bench/request_signer.h"

#include <doctest/doctest.h>

#include <chrono>

#include "gateway/bench/request_maker.h"

namespace penstock {
namespace {

// 2013-05-24T00:00:00Z, the day of the examples in the S3 API Reference.
constexpr WallTime kDay{std::chrono::seconds(1'369'353'600)};
const SignerOptions kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};

TEST_CASE("a presigned request is that of the S3 API Reference") {
  const RequestSigner signer(kExample, "examplebucket.s3.amazonaws.com", kDay);
  const SignedHead head = signer.sign("GET", "/test.txt", "");
  CHECK(
      head.target ==
      "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524"
      "%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"
      "&X-Amz-SignedHeaders=host"
      "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
  CHECK(head.headers == "Host: examplebucket.s3.amazonaws.com\r\n");
}

TEST_CASE("a request that is signed in its header is that of the S3 API Reference") {
  SignerOptions options = kExample;
  options.in_header = true;
  const RequestSigner signer(options, "examplebucket.s3.amazonaws.com", kDay);
  const SignedHead head =
      signer.sign("GET", "/", "max-keys=2&prefix=J",
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(head.target == "/?max-keys=2&prefix=J");
  CHECK(head.headers.find(
            "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7") !=
        std::string::npos);
}

TEST_CASE("a payload that is hashed is signed in the header, whatever else is presigned") {
  const RequestSigner signer(kExample, "h", kDay);
  const SignedHead head = signer.sign("PUT", "/b/k", "", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
  CHECK(head.target == "/b/k");
  CHECK(head.headers.find("Authorization: AWS4-HMAC-SHA256 ") != std::string::npos);
}

TEST_CASE("a server of files gets no signature") {
  SignerOptions options;
  options.nothing = true;
  const SignedHead head = RequestSigner(options, "h:80", kDay).sign("GET", "/b/k", "");
  CHECK(head.target == "/b/k");
  CHECK(head.headers == "Host: h:80\r\n");
}

TEST_CASE("requests say what their answers have to be") {
  SignerOptions options;
  options.nothing = true;
  const RequestSigner signer(options, "h", kDay);
  const Content content(1009);
  const RequestMaker maker(signer, content, "b");
  LoadRequest request;
  maker.read(request, "GET", "k", 100, RequestMaker::Range{10, 20});
  CHECK(request.head == "GET /b/k HTTP/1.1\r\nHost: h\r\nRange: bytes=10-29\r\n\r\n");
  CHECK(*request.expected_bytes == 20);
  CHECK(*request.expected_at == content.start_of("k") + 10);
  request.clear();
  maker.put_part_with_trailer(request, "k", {"id", 3, {40, 255}}, 0x0102030405060708);
  CHECK(request.before == "ff\r\n");
  CHECK(request.after == "\r\n0\r\nx-amz-checksum-crc64nvme:AQIDBAUGBwg=\r\n\r\n");
  CHECK(request.head.find("PUT /b/k?partNumber=3&uploadId=id HTTP/1.1\r\n") == 0);
  CHECK(request.head.find("Content-Length: 305\r\n") != std::string::npos);
  CHECK(request.content_at == content.start_of("k") + 40);
}

}  // namespace
}  // namespace penstock
