#include "server/map_source/packed_map.h"

#include <doctest/doctest.h>

#include "penstock/text_codec.h"
#include "tests/fake/code_of.h"
#include "tests/fake/seeded_random.h"

namespace penstock {
namespace {

// As poorly to be compressed as ids are.
std::string hex_text(std::size_t bytes) {
  SeededRandom random(1);
  std::string raw(bytes / 2, '\0');
  random.fill(std::as_writable_bytes(std::span(raw)));
  return "{" + hex_encode(raw);
}

}  // namespace

TEST_CASE("a short map is stored as it is, a long one compressed") {
  const std::string small = "{\"a\":1}";
  CHECK(*pack_map(small) == small);
  CHECK(*unpack_map(small) == small);
  const std::string large = hex_text(1 << 20);
  const auto packed = pack_map(large);
  REQUIRE(packed);
  CHECK(packed->size() < large.size() * 6 / 10);
  CHECK(*unpack_map(*packed) == large);
}

TEST_CASE("a map that etcd would not take is refused with its size") {
  const auto packed = pack_map(hex_text(4 << 20));
  CHECK(code_of(packed) == Errc::invalid);
  CHECK(packed.error().context.find("1048576") != std::string::npos);
}

TEST_CASE("a stored map that is damaged is refused") {
  const std::string packed = *pack_map(hex_text(200 << 10));
  for (const std::size_t keep : {std::size_t{6}, std::size_t{13}, packed.size() - 1}) {
    CHECK(code_of(unpack_map(packed.substr(0, keep))) == Errc::corrupt);
  }
  std::string longer = packed;
  longer[6] = 1;  // 2^56 bytes
  CHECK(code_of(unpack_map(longer)) == Errc::corrupt);
  SeededRandom random(2);
  for (int turn = 0; turn < 200; ++turn) {
    std::string damaged = packed;
    damaged[6 + random.next() % (damaged.size() - 6)] ^= static_cast<char>(1 + random.next() % 255);
    CHECK(code_of(unpack_map(damaged)) == Errc::corrupt);
  }
}

}  // namespace penstock
