#include "penstock/register_value.h"

#include <doctest/doctest.h>

#include "penstock/volume_client.h"

namespace penstock {
namespace {

RegisterKey key_of_test() {
  RegisterKey key;
  key.bucket = BucketId{7};
  key.key = std::string("a\0b", 3);
  return key;
}

RegisterValue value_of_test() {
  RegisterValue value;
  value.kind = ValueKind::object;
  value.op_id = OpId{1, 2};
  value.chain.push_back(OpId{3, 4});
  value.chain.push_back(OpId{});
  value.origin = Ballot{10, 11, 12};
  value.revision = 5;
  value.inline_bytes = 6;
  value.summary = "summary";
  value.payload = std::string("pay\0load", 8);
  return value;
}

TEST_CASE("a value comes back as it was encoded") {
  const auto key = key_of_test();
  const auto bytes = encode(key, value_of_test());
  const auto back = decode_value(key, bytes);
  REQUIRE(back);
  CHECK(back->kind == ValueKind::object);
  CHECK(back->op_id == OpId{1, 2});
  CHECK(back->chain.size() == 2);
  CHECK(back->chain_contains(OpId{3, 4}));
  CHECK(back->chain_contains(OpId{1, 2}));
  CHECK(back->chain_contains(OpId{}));
  CHECK_FALSE(back->chain_contains(OpId{9, 9}));
  CHECK(back->origin == Ballot{10, 11, 12});
  CHECK(back->revision == 5);
  CHECK(back->payload == std::string("pay\0load", 8));
  const auto head = decode_head(bytes);
  REQUIRE(head);
  CHECK(head->summary == "summary");
  CHECK(head->inline_bytes == 6);
}

TEST_CASE("the encoded form is frozen") {
  std::string hex;
  for (const unsigned char byte : encode(key_of_test(), value_of_test())) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  CHECK(hex ==
        "01020200060000000100000000000000020000000000000007000000"
        "73756d6d6172796f070000000000000003000000610062000000000000"
        "030000000000000004000000000000000000000000000000000000000000"
        "0000"
        "0a000000000000000b000000000000000c0000000000000005000000080000"
        "00706179006c6f616400000000");
}

TEST_CASE("a value cut anywhere, or under another name, is corrupt") {
  const auto key = key_of_test();
  const auto bytes = encode(key, value_of_test());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    const auto back = decode_value(key, std::string_view(bytes).substr(0, length));
    CHECK_FALSE(back);
  }
  auto other = key;
  other.key = "other";
  CHECK(decode_value(other, bytes).error().code == Errc::corrupt);
  CHECK_FALSE(decode_value(key, bytes + "x"));
}

TEST_CASE("partitions, groups and block checksums are frozen") {
  CHECK(partition_of(BucketId{42}, "train/000001.tar", 16) ==
        partition_of(BucketId{42}, "train/000001.tar", 16));
  CHECK(partition_of(BucketId{42}, "train/000001.tar", 1) == 0);
  CHECK(group_of(BucketId{0}, 0, 256) == GroupId{0});
  const std::string block = "0123456789";
  const auto crc = fragment_block_crc(WriteId{1, 2}, 3, 4, as_bytes(block));
  CHECK(crc != fragment_block_crc(WriteId{1, 2}, 3, 5, as_bytes(block)));
  CHECK(crc != fragment_block_crc(WriteId{1, 2}, 4, 4, as_bytes(block)));
  CHECK(crc != fragment_block_crc(WriteId{1, 3}, 3, 4, as_bytes(block)));
}

}  // namespace
}  // namespace penstock
