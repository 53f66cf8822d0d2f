#include <doctest/doctest.h>

#include <random>

#include "server/blobs/manifest.h"
#include "server/objects/objects.h"
#include "server/records/key_range.h"

using namespace penstock;

namespace {
PartInfo sent(std::uint16_t number, std::uint64_t size_bytes) {
  PartInfo made;
  made.number = number;
  made.size_bytes = size_bytes;
  if (size_bytes == 0) return made;
  BlobRef blob;
  blob.write_id = WriteId{0, number};
  blob.shape.size_bytes = size_bytes;
  made.blob = blob;
  return made;
}
}  // namespace

TEST_CASE("A range of a multipart object is cut at its parts, and empty parts add nothing") {
  ObjectRecord record;
  record.part_count = 4;
  record.parts = {sent(1, 10), sent(2, 0), sent(3, 5), sent(4, 20)};
  struct Row {
    std::uint64_t offset, length;
    std::vector<std::array<std::uint64_t, 3>> expected;  // part, offset, length
  };
  const Row rows[] = {
      {0, 35, {{1, 0, 10}, {3, 0, 5}, {4, 0, 20}}},
      {0, 10, {{1, 0, 10}}},
      {9, 2, {{1, 9, 1}, {3, 0, 1}}},
      {10, 5, {{3, 0, 5}}},
      {12, 1, {{3, 2, 1}}},
      {14, 21, {{3, 4, 1}, {4, 0, 20}}},
      {34, 1, {{4, 19, 1}}},
      {5, 0, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.offset);
    CAPTURE(row.length);
    const auto ranges = Objects::ranges_now(record, row.offset, row.length);
    REQUIRE(ranges);
    REQUIRE(ranges->size() == row.expected.size());
    for (std::size_t i = 0; i < ranges->size(); ++i) {
      CHECK((*ranges)[i].blob.write_id.low == row.expected[i][0]);
      CHECK((*ranges)[i].offset == row.expected[i][1]);
      CHECK((*ranges)[i].length == row.expected[i][2]);
    }
  }
}

TEST_CASE("A plain object is one range, an empty one none") {
  ObjectRecord record;
  CHECK(Objects::ranges_now(record, 0, 0)->empty());
  record.parts = {sent(0, 0)};
  record.parts[0].blob = BlobRef{};
  const auto ranges = Objects::ranges_now(record, 3, 4);
  REQUIRE(ranges->size() == 1);
  CHECK(ranges->front().offset == 3);
  CHECK(ranges->front().length == 4);
  CHECK(Objects::ranges_now(record, 3, 0)->empty());
  record.parts[0].blob.reset();  // an empty or inline object
  CHECK(Objects::ranges_now(record, 0, 1)->empty());
}

TEST_CASE("A record with a manifest cannot be ranged without its pages") {
  ObjectRecord record;
  record.part_count = 40;
  record.manifest.emplace_back();
  CHECK_FALSE(Objects::ranges_now(record, 0, 1));
}

TEST_CASE("The pages of a range are those that hold its bytes") {
  std::vector<ManifestPage> pages(3);
  pages[1].first_offset = 100;
  pages[2].first_offset = 250;
  struct Row {
    std::uint64_t begin, end;
    std::size_t first, last;
  };
  const Row rows[] = {{0, 1, 0, 1},     {0, 100, 0, 1},   {99, 101, 0, 2}, {100, 101, 1, 2},
                      {249, 251, 1, 3}, {250, 999, 2, 3}, {0, 999, 0, 3},  {5, 5, 0, 0}};
  for (const Row& row : rows) {
    CAPTURE(row.begin);
    CAPTURE(row.end);
    const PageSpan span = pages_for(pages, row.begin, row.end);
    CHECK(span.first == row.first);
    CHECK(span.last == row.last);
  }
}

TEST_CASE("Every byte of a random object lies in exactly one range, in order") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    ObjectRecord record;
    std::uint64_t size = 0;
    const std::size_t count = 1 + random() % 20;
    for (std::size_t i = 0; i < count; ++i) {
      record.parts.push_back(sent(static_cast<std::uint16_t>(i + 1), random() % 50));
      size += record.parts.back().size_bytes;
    }
    record.part_count = static_cast<std::uint32_t>(count);
    const std::uint64_t offset = size == 0 ? 0 : random() % size;
    const std::uint64_t length = size == 0 ? 0 : random() % (size - offset + 1);
    std::uint64_t at = offset;
    const auto ranges = Objects::ranges_now(record, offset, length);
    for (const BlobRange& range : *ranges) {
      std::uint64_t part_begin = 0;
      for (std::size_t i = 0; i + 1 < range.blob.write_id.low; ++i) {
        part_begin += record.parts[i].size_bytes;
      }
      REQUIRE(part_begin + range.offset == at);
      at += range.length;
    }
    REQUIRE(at == offset + length);
  }
}

TEST_CASE("The end of a prefix is the first string past all that begin with it") {
  CHECK(prefix_end("a/") == "a0");
  CHECK(prefix_end("a\xff") == "b");
  CHECK(prefix_end("\xff\xff").empty());
  CHECK(prefix_end("").empty());
  CHECK(common_prefix("a/b/c", 0, "/") == "a/");
  CHECK(common_prefix("a/b/c", 2, "/") == "a/b/");
  CHECK(common_prefix("a/b/c", 4, "/").empty());
  CHECK(common_prefix("a/b", 0, "").empty());
}
