#include "server/volume/fragments/fragment_format.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "penstock/volume_client.h"
#include "tests/fake/code_of.h"

namespace penstock {
namespace {

constexpr FragmentId kId{WriteId{0x0123456789abcdef, 0xfedcba9876543210}, 3,
                         Generation{0x1122334455667788}};

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// Lines "name hex"; what a line repeats is in the file's own head.
std::string golden(const std::string& name) {
  std::ifstream file(std::string(PENSTOCK_GOLDEN_DIR) + "/fragment_v1.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::string value;
    words >> key >> value;
    if (key == name) return value;
  }
  return "(missing)";
}

struct Tail {
  FragmentGeometry geometry;
  std::uint32_t digest = 0;
  std::string bytes;
};
Tail make_tail(const std::string& data) {
  Tail tail;
  tail.geometry.data_bytes = data.size();
  std::vector<std::uint32_t> table;
  for (std::uint64_t b = 0; b < tail.geometry.blocks(); ++b) {
    const auto block =
        as_bytes(data).subspan(b * limits::kBlockBytes, tail.geometry.block_bytes(b));
    table.push_back(fragment_block_crc(kId.write_id, kId.slot, b, block));
  }
  tail.bytes.resize(static_cast<std::size_t>(tail.geometry.tail_bytes()), 'x');
  tail.digest =
      encode_tail(kId, tail.geometry, table, std::as_writable_bytes(std::span(tail.bytes)));
  return tail;
}

ExtentRow sample_row() {
  ExtentRow row;
  row.segment = 0x0a0b0c0d;
  row.offset = 0x123456789000;
  row.data_bytes = 114'660;
  row.digest = 0xdeadbeef;
  row.start = 0x5566778899aabbcc;
  row.committed_us = 0x1020304050607080;
  row.owner = {BucketId{0x0102030405060708}, 16, "key", "abcdefghijklmnopqrstuvwxyz234567"};
  return row;
}

}  // namespace

TEST_CASE("the geometry of a fragment is whole granules with the footer at the very end") {
  struct Row {
    std::uint64_t data, blocks, tail_offset, tail_bytes;
  };
  for (const Row& row :
       {Row{0, 0, 0, 4096}, Row{1, 1, 4096, 4096}, Row{4096, 1, 4096, 4096},
        Row{4097, 1, 8192, 4096}, Row{16383, 1, 16384, 4096}, Row{16384, 1, 16384, 4096},
        Row{16385, 2, 20480, 4096},
        // 992 checksums and the footer fill one granule exactly
        Row{992 * 16384, 992, 992 * 16384, 4096}, Row{993 * 16384, 993, 993 * 16384, 8192},
        Row{16 << 20, 1024, 16 << 20, 8192}}) {
    CAPTURE(row.data);
    const FragmentGeometry geometry{row.data};
    CHECK(geometry.blocks() == row.blocks);
    CHECK(geometry.tail_offset() == row.tail_offset);
    CHECK(geometry.tail_bytes() == row.tail_bytes);
  }
  CHECK(FragmentGeometry{16385}.block_bytes(0) == 16384);
  CHECK(FragmentGeometry{16385}.block_bytes(1) == 1);
}

TEST_CASE("the bytes of a tail and of a row are those of version 1") {
  const Tail tail = make_tail(std::string(16384, 'a') + "bc");
  CHECK(hex(tail.bytes.substr(0, 8)) == golden("table"));
  CHECK(tail.bytes.substr(8, tail.bytes.size() - 8 - kFooterBytes) ==
        std::string(tail.bytes.size() - 8 - kFooterBytes, '\0'));
  CHECK(hex(tail.bytes.substr(tail.bytes.size() - kFooterBytes)) == golden("footer"));
  CHECK(hex(encode(sample_row())) == golden("row"));
  ExtentRow file = sample_row();
  file.place = FragmentPlace::file;
  file.segment = 0;
  file.offset = 0;
  CHECK(hex(encode(file)) == golden("file_row"));
}

TEST_CASE("a tail is read back, and any changed bit of it is noticed") {
  const Tail tail = make_tail(std::string(40'000, 'q'));
  CHECK(decode_tail(kId, tail.geometry, tail.digest, as_bytes(tail.bytes))->size() == 3);
  for (std::size_t at = 0; at < tail.bytes.size(); ++at) {
    std::string damaged = tail.bytes;
    damaged[at] ^= static_cast<char>(1 << (at % 8));
    const auto table = decode_tail(kId, tail.geometry, tail.digest, as_bytes(damaged));
    REQUIRE(table.has_error());
    REQUIRE(table.error().code == Errc::corrupt);
  }
}

TEST_CASE("the tail of another fragment, length or writing is refused") {
  const Tail tail = make_tail(std::string(40'000, 'q'));
  const auto code = [&](FragmentId id, std::uint64_t data_bytes, std::uint32_t digest) {
    return decode_tail(id, FragmentGeometry{data_bytes}, digest, as_bytes(tail.bytes)).has_error();
  };
  CHECK_FALSE(code(kId, 40'000, tail.digest));
  FragmentId other = kId;
  other.slot = 4;
  CHECK(code(other, 40'000, tail.digest));
  other = kId;
  other.generation.value ^= 1;
  CHECK(code(other, 40'000, tail.digest));
  other = kId;
  other.write_id.low ^= 1;
  CHECK(code(other, 40'000, tail.digest));
  CHECK(code(kId, 40'001, tail.digest));
  CHECK(code(kId, 40'000, tail.digest ^ 1));
}

TEST_CASE("a row is read back; one that is cut, longer, of another version or place is corrupt") {
  const ExtentRow row = sample_row();
  const std::string bytes = encode(row);
  CHECK(decode_extent_row(bytes).value() == row);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK(code_of(decode_extent_row(bytes.substr(0, length))) == Errc::corrupt);
  }
  CHECK(code_of(decode_extent_row(bytes + "x")) == Errc::corrupt);
  std::string changed = bytes;
  changed[0] = 2;
  CHECK(code_of(decode_extent_row(changed)) == Errc::corrupt);
  changed = bytes;
  changed[1] = 3;
  CHECK(code_of(decode_extent_row(changed)) == Errc::corrupt);
  changed = bytes;
  changed[8] = 1;  // the offset is not of a granule
  CHECK(code_of(decode_extent_row(changed)) == Errc::corrupt);
  changed = bytes;
  changed[23] = '\x7f';  // a length of exabytes
  CHECK(code_of(decode_extent_row(changed)) == Errc::corrupt);
  ExtentRow longest = row;
  longest.owner.key = std::string(limits::kKeyBytesMax + 1, 'k');
  CHECK(code_of(decode_extent_row(encode(longest))) == Errc::corrupt);
}

TEST_CASE("the name of a fragment is read back, and nothing else is") {
  const std::string name = to_string(kId);
  CHECK(name == "0123456789abcdeffedcba9876543210-03-1122334455667788");
  CHECK(parse_fragment_id(name).value() == kId);
  for (const std::string& wrong :
       {std::string(), name + "0", name.substr(1), name + ".1.tmp", std::string(52, '-'),
        "0123456789ABCDEFfedcba9876543210-03-1122334455667788" + std::string(),
        "g123456789abcdeffedcba9876543210-03-1122334455667788" + std::string(),
        "01234567/9abcdeffedcba9876543210-03-1122334455667788" + std::string(),
        "0123456789abcdefgedcba9876543210-03-1122334455667788" + std::string(),
        "0123456789abcdeffedcba9876543210-0g-1122334455667788" + std::string(),
        "0123456789abcdeffedcba9876543210-03-112233445566778g" + std::string(),
        "0123456789abcdeffedcba9876543210+03-1122334455667788" + std::string(),
        "0123456789abcdeffedcba9876543210-03+1122334455667788" + std::string()}) {
    CHECK(code_of(parse_fragment_id(wrong)) == Errc::invalid);
  }
}

}  // namespace penstock
