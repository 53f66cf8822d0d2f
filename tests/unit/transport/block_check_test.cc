#include "server/transport/block_check.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

using limits::kBlockBytes;

const FragmentId kFragment{WriteId{1, 2}, 3, Generation{4}};
constexpr std::size_t kTail = 100;  // bytes of the last block of the fragment

// Of the fragment's blocks first … 4, the last one short.
struct Sent {
  Buffer blocks;
  std::vector<std::uint32_t> crcs;
};
Sent blocks_from(std::uint64_t first) {
  std::string text;
  for (std::uint64_t number = first; number < 5; ++number) {
    text += std::string(number < 4 ? kBlockBytes : kTail, static_cast<char>('a' + number));
  }
  Sent sent{Buffer::copy_of(as_bytes(text)), {}};
  ConstBytes left = sent.blocks.bytes();
  for (std::uint64_t number = first; number < 5; ++number) {
    const ConstBytes block = left.first(std::min(left.size(), kBlockBytes));
    sent.crcs.push_back(fragment_block_crc(kFragment.write_id, kFragment.slot, number, block));
    left = left.subspan(block.size());
  }
  return sent;
}

FragmentReadRequest a_read(std::uint64_t offset, std::uint64_t length) {
  FragmentReadRequest request;
  request.id = kFragment;
  request.offset = offset;
  request.length = length;
  return request;
}

TEST_CASE("the range is cut out of sound blocks") {
  const Sent sent = blocks_from(2);
  const std::uint64_t offset = 3 * kBlockBytes - 1;
  const auto piece = checked_piece(a_read(offset, kBlockBytes + 1 + kTail), sent.blocks, sent.crcs);
  REQUIRE(piece);
  const std::string_view text = as_text(piece->bytes());
  CHECK(text.size() == kBlockBytes + 1 + kTail);
  CHECK(text.substr(0, 2) == "cd");
  CHECK(text.substr(text.size() - kTail - 1, 2) == "de");
}

TEST_CASE("a block that was changed, or is another one, is found") {
  Sent sent = blocks_from(2);
  const auto request = a_read(2 * kBlockBytes, 2 * kBlockBytes + kTail);
  REQUIRE(checked_piece(request, sent.blocks, sent.crcs));
  SUBCASE("a bit flips") {
    sent.blocks.mutable_bytes()[2 * kBlockBytes + 7] ^= std::byte{16};
    CHECK(code_of(checked_piece(request, sent.blocks, sent.crcs)) == Errc::corrupt);
  }
  SUBCASE("blocks of another place") {
    const auto other = a_read(kBlockBytes, 2 * kBlockBytes + kTail);
    CHECK(code_of(checked_piece(other, sent.blocks, sent.crcs)) == Errc::corrupt);
  }
  SUBCASE("of another slot") {
    auto other = request;
    other.id.slot = 4;
    CHECK(code_of(checked_piece(other, sent.blocks, sent.crcs)) == Errc::corrupt);
  }
  SUBCASE("a checksum is missing") {
    sent.crcs.pop_back();
    CHECK(code_of(checked_piece(request, sent.blocks, sent.crcs)) == Errc::corrupt);
  }
}

TEST_CASE("blocks that cannot be those asked for are not looked at") {
  const Sent sent = blocks_from(2);
  const auto longer = a_read(2 * kBlockBytes, 2 * kBlockBytes + kTail + 1);
  CHECK(code_of(checked_piece(longer, sent.blocks, sent.crcs)) == Errc::invalid);
  const auto shorter = a_read(2 * kBlockBytes, kBlockBytes);
  CHECK(code_of(checked_piece(shorter, sent.blocks, sent.crcs)) == Errc::invalid);
}

}  // namespace
}  // namespace penstock
