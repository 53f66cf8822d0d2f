#include "gateway/auth/signature_v4.h"

#include <doctest/doctest.h>

#include "gateway/auth/payload_auth.h"
#include "tests/unit/gateway/auth/signing.h"

namespace penstock {
namespace {

using namespace testing;

const std::string kHost = "examplebucket.s3.amazonaws.com";

// The examples of the S3 API Reference, "Examples: Signature Calculations".
TEST_CASE("published header signatures are reproduced") {
  struct Row {
    S3Request request;
    std::string path;
    std::string signature;
  };
  Row rows[] = {
      {sent_request("GET", "/test.txt", {},
                    {{"host", kHost},
                     {"range", "bytes=0-9"},
                     {"x-amz-content-sha256", std::string(kEmptySha256)}}),
       "", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {sent_request("PUT", "/test%24file.text", {},
                    {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                     {"host", kHost},
                     {"x-amz-content-sha256",
                      "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}),
       "", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
      {sent_request("GET", "/", {{"lifecycle", ""}},
                    {{"host", kHost}, {"x-amz-content-sha256", std::string(kEmptySha256)}}),
       "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {sent_request("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}},
                    {{"host", kHost}, {"x-amz-content-sha256", std::string(kEmptySha256)}}),
       "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
  };
  for (Row& row : rows) CHECK(sign_header(row.request) == row.signature);
}

TEST_CASE("the published presigned signature is reproduced") {
  S3Request request = sent_request("GET", "/test.txt", {}, {{"host", kHost}});
  SignWith with;
  with.expires = "86400";
  presign(request, with);
  CHECK(*request.query_value("X-Amz-Signature") ==
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
}

TEST_CASE("the published chain of chunk signatures is reproduced") {
  S3Request request = sent_request("PUT", "/examplebucket/chunkObject.txt", {},
                                   {{"host", "s3.amazonaws.com"},
                                    {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                    {"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"},
                                    {"content-encoding", "aws-chunked"},
                                    {"x-amz-decoded-content-length", "66560"},
                                    {"content-length", "66824"}});
  const std::string seed = sign_header(request);
  CHECK(seed == "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
  ChunkSigner signer(v4_signing_key(kSecretKey, "20130524", "us-east-1", "s3"),
                     std::string(kTimestamp), "20130524/us-east-1/s3/aws4_request", seed);
  const std::string first(65536, 'a');
  const std::string second(1024, 'a');
  CHECK(signer.accept_chunk(sha256(as_bytes(first)),
                            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"));
  CHECK_FALSE(signer.accept_chunk(sha256(as_bytes(first)), seed));
  CHECK(signer.accept_chunk(sha256(as_bytes(second)),
                            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"));
  CHECK(signer.accept_chunk(sha256({}),
                            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"));
}

TEST_CASE("the published signatures of chunks with a trailer are reproduced") {
  S3Request request =
      sent_request("PUT", "/examplebucket/chunkObject.txt", {},
                   {{"host", "s3.amazonaws.com"},
                    {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                    {"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"},
                    {"content-encoding", "aws-chunked"},
                    {"x-amz-decoded-content-length", "66560"},
                    {"x-amz-trailer", "x-amz-checksum-crc32c"}});
  const std::string seed = sign_header(request);
  CHECK(seed == "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
  ChunkSigner signer(v4_signing_key(kSecretKey, "20130524", "us-east-1", "s3"),
                     std::string(kTimestamp), "20130524/us-east-1/s3/aws4_request", seed);
  const std::string first(65536, 'a');
  const std::string second(1024, 'a');
  CHECK(signer.accept_chunk(sha256(as_bytes(first)),
                            "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"));
  CHECK(signer.accept_chunk(sha256(as_bytes(second)),
                            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"));
  CHECK(signer.accept_chunk(sha256({}),
                            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"));
  CHECK(signer.next_trailer(sha256(as_bytes("x-amz-checksum-crc32c:sOO8/Q==\n"))) ==
        "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435");
}

TEST_CASE("headers are collapsed and repeats joined before they are signed") {
  const S3Request request = sent_request(
      "GET", "/", {}, {{"host", "h"}, {"x-amz-meta-a", "  b \t c  "}, {"x-amz-meta-a", "d"}});
  V4Claim claim;
  claim.signed_headers = "host;x-amz-meta-a";
  CHECK(v4_canonical_request(request, claim, "/", "HASH") ==
        "GET\n/\n\nhost:h\nx-amz-meta-a:b c,d\n\nhost;x-amz-meta-a\nHASH");
}

TEST_CASE("the query is encoded anew and sorted by name, then value") {
  const S3Request request = sent_request(
      "GET", "/", {{"a-b", "1"}, {"a", "2"}, {"a", "1/+ ~"}, {"uploads", ""}, {"", "x"}},
      {{"host", "h"}});
  V4Claim claim;
  claim.signed_headers = "host";
  CHECK(v4_canonical_request(request, claim, "/p", "HASH") ==
        "GET\n/p\n=x&a=1%2F%2B%20~&a=2&a-b=1&uploads=\nhost:h\n\nhost\nHASH");
}

TEST_CASE("times are read exactly") {
  CHECK(amz_date(*parse_amz_date("20240229T235959Z")) ==
        std::to_array(
            {'2', '0', '2', '4', '0', '2', '2', '9', 'T', '2', '3', '5', '9', '5', '9', 'Z'}));
  CHECK(parse_amz_date("19700101T000000Z") == WallTime{});
  for (const std::string_view bad :
       {"", "20240229", "20230229T000000Z", "20241301T000000Z", "20240101T240000Z",
        "20240101T006000Z", "20240101T000060Z", "20240101T00000-Z", "2024-101T000000Z",
        "19690101T000000Z", "20240101 000000Z", "20240101T000000z", "20240101T000000ZZ"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_amz_date(bad));
  }
}

}  // namespace
}  // namespace penstock
