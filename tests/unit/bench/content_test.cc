#include "gateway/bench/content.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace penstock {
namespace {

std::vector<std::byte> read(const Content& content, std::uint64_t position, std::size_t count) {
  std::vector<std::byte> bytes;
  while (bytes.size() < count) {
    const ConstBytes piece = content.at(position + bytes.size(), count - bytes.size());
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

TEST_CASE("content matches itself at every place, across the end of the ring too") {
  const Content content(1009);
  for (std::uint64_t position = 0; position < 2018; position += 97) {
    const auto bytes = read(content, position, 3'000);
    CHECK(content.matches(position, bytes));
  }
}

TEST_CASE("one wrong bit is noticed, and so are bytes of another place") {
  const Content content(1009);
  auto bytes = read(content, 5, 2'000);
  bytes[1'999] ^= std::byte{1};
  CHECK_FALSE(content.matches(5, bytes));
  bytes[1'999] ^= std::byte{1};
  CHECK_FALSE(content.matches(6, bytes));
}

TEST_CASE("two programs see the same content of a key") {
  CHECK(Content(1009).start_of("a/b") == Content(1009).start_of("a/b"));
  CHECK(Content(1009).start_of("a/b") != Content(1009).start_of("a/c"));
  CHECK(read(Content(64), 0, 8) == read(Content(1009), 0, 8));
}

}  // namespace
}  // namespace penstock
