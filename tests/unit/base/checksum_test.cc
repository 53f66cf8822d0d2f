#include "penstock/checksum.h"

#include <doctest/doctest.h>

#include <random>

#include "penstock/md5.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

std::string random_text(std::mt19937_64& random, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string hex_text(const auto& digest) { return hex_encode(std::as_bytes(std::span(digest))); }

TEST_CASE("each checksum gives its published value") {
  struct Row {
    ChecksumAlgorithm algorithm;
    std::string_view text;
    std::string_view hex;
  };
  const Row rows[] = {
      {ChecksumAlgorithm::crc32, "123456789", "cbf43926"},
      {ChecksumAlgorithm::crc32c, "123456789", "e3069283"},
      {ChecksumAlgorithm::crc64nvme, "123456789", "ae8b14860a799888"},
      {ChecksumAlgorithm::sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
      {ChecksumAlgorithm::sha256, "abc",
       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {ChecksumAlgorithm::crc32, "", "00000000"},
      {ChecksumAlgorithm::crc32c, "", "00000000"},
      {ChecksumAlgorithm::crc64nvme, "", "0000000000000000"},
      {ChecksumAlgorithm::sha1, "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
      {ChecksumAlgorithm::none, "abc", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(to_string(row.algorithm));
    CHECK(hex_encode(checksum_of(row.algorithm, as_bytes(row.text))) == row.hex);
  }
}

TEST_CASE("the CRC-64 of NVM Express' test blocks is the published one") {
  std::string block(4096, '\0');
  CHECK(crc64nvme(as_bytes(block)) == 0x6482d367eb22b64e);
  block.assign(4096, '\xff');
  CHECK(crc64nvme(as_bytes(block)) == 0xc0ddba7302eca3ac);
}

// Short texts take another way than long ones.
TEST_CASE("the CRC32C of any length and alignment is that of its bits") {
  std::mt19937_64 random(4);
  const std::string text = random_text(random, 1000);
  for (std::size_t size = 0; size <= 600; ++size) {
    const ConstBytes bytes = as_bytes(text).subspan(size % 64, size);
    const auto before = static_cast<std::uint32_t>(random());
    std::uint32_t state = ~before;
    for (const std::byte byte : bytes) {
      state ^= std::to_integer<std::uint32_t>(byte);
      for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ ((state & 1) != 0 ? 0x82f63b78 : 0);
    }
    CHECK(crc32c(bytes, before) == ~state);
  }
}

TEST_CASE("all CRC-64 kernels agree for every length and alignment") {
  std::mt19937_64 random(1);
  const std::string text = random_text(random, 3000);
  for (std::size_t size = 0; size <= 1200; ++size) {
    const ConstBytes bytes = as_bytes(text).subspan(size % 64, size);
    const std::uint64_t by_table = crc64nvme(bytes, size, Crc64Kernel::table);
    CHECK(crc64nvme(bytes, size, Crc64Kernel::pclmul) == by_table);
    CHECK(crc64nvme(bytes, size, Crc64Kernel::vpclmul) == by_table);
  }
}

TEST_CASE("a stream in pieces has the checksum of the whole") {
  std::mt19937_64 random(2);
  for (const ChecksumAlgorithm algorithm : kChecksumAlgorithms) {
    const std::string text = random_text(random, 10'000);
    Checksummer pieces(algorithm);
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t size = std::min<std::size_t>(random() % 700, text.size() - at);
      pieces.update(as_bytes(text).subspan(at, size));
      at += size;
      CHECK(pieces.raw() == checksum_of(algorithm, as_bytes(text).first(at)));
    }
  }
}

TEST_CASE("the CRC of a whole follows from those of its parts") {
  std::mt19937_64 random(3);
  for (const ChecksumAlgorithm algorithm : kChecksumAlgorithms) {
    if (!is_combinable(algorithm)) continue;
    for (const std::size_t size : {0, 1, 7, 64, 1000, 70'001}) {
      const std::string a = random_text(random, random() % 300);
      const std::string b = random_text(random, size);
      const std::string combined = combine_crc(algorithm, checksum_of(algorithm, as_bytes(a)),
                                               checksum_of(algorithm, as_bytes(b)), b.size());
      CHECK(combined == checksum_of(algorithm, as_bytes(a + b)));
    }
  }
}

TEST_CASE("combining is associative over lengths of terabytes") {
  constexpr std::uint64_t kHuge = 5'000'000'000'000;
  const std::uint64_t left = combine_crc64nvme(combine_crc64nvme(11, 22, kHuge), 33, kHuge);
  const std::uint64_t right = combine_crc64nvme(11, combine_crc64nvme(22, 33, kHuge), 2 * kHuge);
  CHECK(left == right);
}

TEST_CASE("names are read in any case and unknown ones are refused") {
  CHECK(parse_checksum_algorithm("CRC64NVME") == ChecksumAlgorithm::crc64nvme);
  CHECK(parse_checksum_algorithm("Sha256") == ChecksumAlgorithm::sha256);
  for (const ChecksumAlgorithm algorithm : kChecksumAlgorithms) {
    CHECK(parse_checksum_algorithm(to_string(algorithm)) == algorithm);
    CHECK(parse_checksum_algorithm(s3_name(algorithm)) == algorithm);
  }
  for (const std::string_view name : {"", "none", "md5", "crc", "crc32 ", "sha512", "xxhash64"}) {
    CHECK_FALSE(parse_checksum_algorithm(name));
  }
}

TEST_CASE("MD5 gives the values of RFC 1321") {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"", "d41d8cd98f00b204e9800998ecf8427e"},
      {"a", "0cc175b9c0f1b6a831c399e269772661"},
      {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
      {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
       "d174ab98d277d9f5a5611c2c9f419d9f"},
      {"1234567890123456789012345678901234567890123456789012345678901234567890"
       "1234567890",
       "57edf4a22be3c955ac49da2e2107b67a"},
  };
  for (const auto& [text, hex] : rows) CHECK(hex_text(md5(as_bytes(text))) == hex);
}

TEST_CASE("MD5 does not depend on how the bytes are cut") {
  std::mt19937_64 random(4);
  const std::string text = random_text(random, 1000);
  for (std::size_t cut = 0; cut <= 200; ++cut) {
    Md5 stream;
    stream.update(as_bytes(text).first(cut));
    CHECK(stream.digest() == md5(as_bytes(text).first(cut)));
    stream.update(as_bytes(text).subspan(cut));
    CHECK(stream.digest() == md5(as_bytes(text)));
  }
}

TEST_CASE("base64 round-trips and has one form per value") {
  const std::pair<std::string_view, std::string_view> rows[] = {{"", ""},
                                                                {"f", "Zg=="},
                                                                {"fo", "Zm8="},
                                                                {"foo", "Zm9v"},
                                                                {"foob", "Zm9vYg=="},
                                                                {"fooba", "Zm9vYmE="},
                                                                {"foobar", "Zm9vYmFy"}};
  for (const auto& [raw, text] : rows) {
    CHECK(base64_encode(raw) == text);
    CHECK(base64_decode(text) == std::string(raw));
  }
  for (const std::string_view bad :
       {"Zg=", "Zg", "Z===", "====", "Zh==", "Zm9=", "Zm9v\n", "Zm 9", "Zg==Zg==", "Z-9v"}) {
    CAPTURE(bad);
    CHECK_FALSE(base64_decode(bad));
  }
}

TEST_CASE("hexadecimal reads both cases and writes the lower one") {
  CHECK(hex_encode(std::string_view("\x00\xab\xff", 3)) == "00abff");
  CHECK(hex_decode("00ABff") == std::string("\x00\xab\xff", 3));
  for (const std::string_view bad : {"0", "0g", " 0", "0x"}) CHECK_FALSE(hex_decode(bad));
}

}  // namespace
}  // namespace penstock
