#include "gateway/body/checksum_headers.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/s3/request_builder.h"

namespace penstock {
namespace {
const StoredChecksum kCrc{ChecksumAlgorithm::crc32, ChecksumType::full_object,
                          std::string("\0\0\0\1", 4)};
const StoredChecksum kComposite{ChecksumAlgorithm::crc32c, ChecksumType::composite,
                                std::string("\0\0\0\2", 4)};
}  // namespace

TEST_CASE("a composite checksum carries its part count and another does not") {
  CHECK(checksum_text(kCrc, 3) == "AAAAAQ==");
  CHECK(checksum_text(kComposite, 3) == "AAAAAg==-3");
  CHECK(checksum_text(kComposite, 0) == "AAAAAg==");
}

TEST_CASE("a response names the algorithm and the type") {
  S3Response response;
  set_checksum(response, {}, 0);
  CHECK(response.headers.empty());
  set_checksum(response, kComposite, 2);
  CHECK(response.headers ==
        Pairs{{"x-amz-checksum-crc32c", "AAAAAg==-2"}, {"x-amz-checksum-type", "COMPOSITE"}});
}

TEST_CASE("checksum mode is asked for in any case") {
  CHECK(wants_checksum(with_headers({{"x-amz-checksum-mode", "ENABLED"}})));
  CHECK(wants_checksum(with_headers({{"x-amz-checksum-mode", "enabled"}})));
  CHECK_FALSE(wants_checksum(with_headers({{"x-amz-checksum-mode", "off"}})));
  CHECK_FALSE(wants_checksum(with_headers({})));
}

TEST_CASE("the choice of an upload follows S3's table of algorithms and types") {
  struct Row {
    const char *algorithm, *type;
    bool allowed;
    ChecksumType chosen;
  };
  constexpr auto kFull = ChecksumType::full_object;
  constexpr auto kParts = ChecksumType::composite;
  for (const Row& row :
       {Row{"CRC32", nullptr, true, kParts}, Row{"crc32c", nullptr, true, kParts},
        Row{"SHA1", nullptr, true, kParts}, Row{"SHA256", nullptr, true, kParts},
        Row{"CRC64NVME", nullptr, true, kFull}, Row{"CRC32", "full_object", true, kFull},
        Row{"CRC32C", "FULL_OBJECT", true, kFull}, Row{"CRC64NVME", "FULL_OBJECT", true, kFull},
        Row{"SHA256", "COMPOSITE", true, kParts}, Row{"CRC64NVME", "COMPOSITE", false, kFull},
        Row{"SHA1", "FULL_OBJECT", false, kFull}, Row{"SHA256", "FULL_OBJECT", false, kFull},
        Row{"CRC32", "HALF", false, kFull}, Row{"MD5", nullptr, false, kFull},
        Row{"SHA512", nullptr, false, kFull}}) {
    CAPTURE(row.algorithm);
    Pairs headers{{"x-amz-checksum-algorithm", row.algorithm}};
    if (row.type != nullptr) headers.emplace_back("x-amz-checksum-type", row.type);
    const auto choice = checksum_choice(with_headers(headers));
    CHECK(static_cast<bool>(choice) == row.allowed);
    if (choice) CHECK(static_cast<int>(choice->type) == static_cast<int>(row.chosen));
    if (!choice) CHECK(choice.error().code == S3Code::InvalidRequest);
  }
  CHECK(checksum_choice(with_headers({}))->algorithm == ChecksumAlgorithm::none);
  CHECK_FALSE(checksum_choice(with_headers({{"x-amz-checksum-type", "COMPOSITE"}})));
}

TEST_CASE("the checksum of a whole upload is read with its suffix") {
  const auto whole = whole_checksum(with_headers(
      {{"x-amz-checksum-type", "COMPOSITE"}, {"x-amz-checksum-crc32c", "AAAAAg==-3"}}));
  REQUIRE(whole);
  CHECK(whole->checksum == kComposite);
  CHECK(whole->part_count == 3u);
  CHECK(whole_checksum(with_headers({{"x-amz-checksum-crc32", "AAAAAQ=="}}))->checksum == kCrc);
  CHECK(whole_checksum(with_headers({}))->checksum.algorithm == ChecksumAlgorithm::none);
  CHECK(code_of(whole_checksum(with_headers({{"x-amz-checksum-sha256", "bad"}}))) ==
        S3Code::BadDigest);
  CHECK(code_of(whole_checksum(with_headers({{"x-amz-checksum-crc32", "AAAAAQ==-x"}}))) ==
        S3Code::BadDigest);
  CHECK(code_of(whole_checksum(with_headers(
            {{"x-amz-checksum-crc32", "AAAAAQ=="}, {"x-amz-checksum-crc32c", "AAAAAQ=="}}))) ==
        S3Code::InvalidRequest);
}

TEST_CASE("a body's algorithm is named in a header or for its trailer") {
  CHECK(named_checksum(with_headers({{"x-amz-checksum-sha1", "v"}})) == ChecksumAlgorithm::sha1);
  CHECK(named_checksum(with_headers({{"x-amz-trailer", "X-Amz-Checksum-CRC64NVME"}})) ==
        ChecksumAlgorithm::crc64nvme);
  CHECK(named_checksum(with_headers(
            {{"x-amz-sdk-checksum-algorithm", "CRC32"}, {"x-amz-checksum-type", "COMPOSITE"}})) ==
        ChecksumAlgorithm::none);
}

}  // namespace penstock
