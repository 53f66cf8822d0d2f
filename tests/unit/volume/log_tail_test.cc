#include "server/volume/log_tail.h"

#include <doctest/doctest.h>

#include "penstock/checksum.h"
#include "tests/fake/fake_disk.h"

namespace penstock {
namespace {

constexpr std::size_t kBlock = 32768;

// Writes as leveldb::log::Writer does.
class LogImage {
 public:
  // Returns where the record begins.
  std::size_t add(std::string_view record) {
    const std::size_t begin = bytes.size();
    bool first = true;
    do {
      const std::size_t left = kBlock - bytes.size() % kBlock;
      if (left < 7) bytes.append(left, '\0');
      const std::size_t room = kBlock - bytes.size() % kBlock - 7;
      const std::size_t take = std::min(room, record.size());
      const bool last = take == record.size();
      const char type = first && last ? 1 : first ? 2 : last ? 4 : 3;
      std::string body(1, type);
      body.append(record.substr(0, take));
      const std::uint32_t crc = crc32c(as_bytes(body));
      const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
      bytes.append(reinterpret_cast<const char*>(&masked), 4);
      bytes.push_back(static_cast<char>(take & 255));
      bytes.push_back(static_cast<char>(take >> 8));
      bytes += body;
      record.remove_prefix(take);
      first = false;
    } while (!record.empty());
    return begin;
  }
  LogTail tail() const {
    FakeDisk disk;
    auto file = disk.open("log", OpenMode::write_new);
    REQUIRE(file);
    REQUIRE((*file)->write_at(0, as_bytes(bytes)));
    const auto read = read_log_tail(**file);
    REQUIRE(read);
    return *read;
  }
  std::string bytes;
};

TEST_CASE("a whole log is read to its end") {
  LogImage log;
  CHECK(!log.tail().torn);
  for (const std::size_t size : {1u, 100u, 32754u, 32761u, 40000u, 100000u, 3u}) {
    log.add(std::string(size, 'r'));
    const LogTail tail = log.tail();
    CHECK(tail.whole_bytes == log.bytes.size());
    CHECK(!tail.torn);
    CHECK(!tail.record_after);
  }
}

TEST_CASE("a last record cut anywhere is torn, and what was before it is whole") {
  for (const std::size_t size : {10u, 50'000u}) {
    LogImage log;
    log.add("first");
    const std::size_t begin = log.add(std::string(size, 'r'));
    const std::string whole = log.bytes;
    const std::size_t step = size < 100 ? 1 : 997;
    for (std::size_t cut = begin + 1; cut < whole.size(); cut += step) {
      log.bytes = whole.substr(0, cut);
      const LogTail tail = log.tail();
      CHECK(tail.whole_bytes == begin);
      CHECK(tail.torn);
      CHECK(!tail.record_after);
    }
  }
}

TEST_CASE("a last record whose later sectors reached the disk alone is torn") {
  LogImage log;
  log.add("first");
  const std::size_t begin = log.add(std::string(100'000, 'r'));
  std::fill(log.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
            log.bytes.begin() + static_cast<std::ptrdiff_t>(begin) + 40'000, '\0');
  const LogTail tail = log.tail();
  CHECK(tail.whole_bytes == begin);
  CHECK(tail.torn);
  CHECK(!tail.record_after);
}

TEST_CASE("damage in any byte before the last record shows as a record after it") {
  LogImage log;
  log.add("first record");
  const std::size_t begin = log.add(std::string(300, 'r'));
  const std::size_t last = log.add("the last one");
  const std::string whole = log.bytes;
  for (std::size_t at = begin; at < last; ++at) {
    log.bytes = whole;
    log.bytes[at] = static_cast<char>(log.bytes[at] ^ 0x10);
    const LogTail tail = log.tail();
    CHECK(tail.whole_bytes == begin);
    CHECK(tail.torn);
    CHECK(tail.record_after);
  }
}

TEST_CASE("a lost block before the last record shows as a record after it") {
  LogImage log;
  for (int i = 0; i < 3; ++i) log.add(std::string(30'000, 'r'));
  log.add("last");
  std::fill(log.bytes.begin(), log.bytes.begin() + kBlock, '\0');
  const LogTail tail = log.tail();
  CHECK(tail.whole_bytes == 0);
  CHECK(tail.record_after);
}

}  // namespace
}  // namespace penstock
