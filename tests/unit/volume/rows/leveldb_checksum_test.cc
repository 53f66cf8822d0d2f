#include "server/volume/rows/leveldb_checksum.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace penstock {
namespace {

std::uint32_t extend(std::uint32_t crc, std::string_view bytes) {
  return leveldb::crc32c::Extend(crc, bytes.data(), bytes.size());
}

// Bit by bit, as the polynomial says.
std::uint32_t by_bits(std::uint32_t crc, std::string_view bytes) {
  crc = ~crc;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("the checksums are those that LevelDB's own tests ask for") {
  CHECK(extend(0, "") == 0);
  CHECK(extend(0, "123456789") == 0xe3069283U);
  CHECK(extend(0, std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(extend(0, std::string(32, '\xff')) == 0x62a8ab43U);
  std::string up;
  std::string down;
  for (int i = 0; i < 32; ++i) up.push_back(static_cast<char>(i));
  for (int i = 31; i >= 0; --i) down.push_back(static_cast<char>(i));
  CHECK(extend(0, up) == 0x46dd794eU);
  CHECK(extend(0, down) == 0x113fdb5cU);
  const std::string_view read_command(
      "\x01\xc0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
      "\x14\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x14\x00\x00\x00\x18"
      "\x28\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00",
      48);
  CHECK(extend(0, read_command) == 0xd9963a56U);
}

TEST_CASE("a checksum can be continued at any place, whatever length and address") {
  std::string bytes;
  for (int i = 0; i < 700; ++i) bytes.push_back(static_cast<char>(i * 37 + i / 256));
  const std::string_view all(bytes);
  for (std::size_t begin = 0; begin < 17; ++begin) {
    for (std::size_t length = 0; begin + length <= all.size(); length += 13) {
      const std::string_view part = all.substr(begin, length);
      const std::uint32_t whole = by_bits(0, part);
      REQUIRE(extend(0, part) == whole);
      REQUIRE(extend(extend(0, part.substr(0, length / 3)), part.substr(length / 3)) == whole);
      REQUIRE(extend(0xdeadbeef, part) == by_bits(0xdeadbeef, part));
    }
  }
}

}  // namespace penstock
