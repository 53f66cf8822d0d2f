#include "server/volume/log/log_frames.h"

#include <doctest/doctest.h>

#include "penstock/checksum.h"
#include "tests/fake/fake_disk.h"

namespace penstock {
namespace {

constexpr std::uint64_t kMarker = 0x1122'3344'5566'7788;

std::string frame_of(std::uint32_t number, std::string_view bytes, std::uint64_t marker = kMarker) {
  std::string frame(kFrameHeadBytes, '\0');
  const auto length = static_cast<std::uint32_t>(bytes.size());
  write_frame_head({marker, number, length, crc32c(as_bytes(bytes))}, frame.data());
  return frame + std::string(bytes);
}

// A log as it lies on the disk.
class FrameImage {
 public:
  // Returns where the frame begins.
  std::size_t add(std::string_view frame) {
    const std::size_t begin = bytes.size();
    bytes += frame_of(count++, frame);
    return begin;
  }
  LogTail tail(std::uint64_t marker = kMarker) const {
    FakeDisk disk;
    auto file = disk.open("log", OpenMode::write_new);
    REQUIRE(file);
    REQUIRE((*file)->write_at(0, as_bytes(bytes)));
    const auto read = read_log_tail(**file, marker);
    REQUIRE(read);
    return *read;
  }
  std::string bytes;
  std::uint32_t count = 0;
};

TEST_CASE("a whole log is read to its end") {
  FrameImage log;
  CHECK(!log.tail().torn);
  CHECK(!log.tail().foreign);
  for (const std::size_t size : {0u, 1u, 100u, 65512u, 65536u, 400000u, 3u}) {
    log.add(std::string(size, 'r'));
    const LogTail tail = log.tail();
    CHECK(tail.whole_bytes == log.bytes.size());
    CHECK(tail.whole_frames == log.count);
    CHECK(!tail.torn);
    CHECK(!tail.frame_after);
  }
}

TEST_CASE("a last frame cut anywhere is torn, and what was before it is whole") {
  for (const std::size_t size : {10u, 150'000u}) {
    FrameImage log;
    log.add("first");
    const std::size_t begin = log.add(std::string(size, 'r'));
    const std::string whole = log.bytes;
    const std::size_t step = size < 100 ? 1 : 997;
    for (std::size_t cut = begin + 1; cut < whole.size(); cut += step) {
      log.bytes = whole.substr(0, cut);
      const LogTail tail = log.tail();
      CHECK(tail.whole_bytes == begin);
      CHECK(tail.whole_frames == 1);
      CHECK(tail.torn);
      CHECK(tail.cut_short);
      CHECK(!tail.frame_after);
    }
  }
}

TEST_CASE("a last frame whose later sectors reached the disk alone is torn, and was not cut") {
  FrameImage log;
  log.add("first");
  const std::size_t begin = log.add(std::string(100'000, 'r'));
  std::fill(log.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
            log.bytes.begin() + static_cast<std::ptrdiff_t>(begin) + 40'000, '\0');
  const LogTail tail = log.tail();
  CHECK(tail.whole_bytes == begin);
  CHECK(tail.torn);
  CHECK(!tail.cut_short);
  CHECK(!tail.frame_after);
}

TEST_CASE("damage in any byte before the last frame shows by the frame after it") {
  FrameImage log;
  log.add("first frame");
  const std::size_t begin = log.add(std::string(300, 'r'));
  const std::size_t last = log.add("the last one");
  const std::string whole = log.bytes;
  // The last frame need not be whole: that it was begun says that the one before it was synced.
  for (const std::size_t end : {whole.size(), last + kFrameHeadBytes}) {
    for (std::size_t at = begin; at < last; ++at) {
      log.bytes = whole.substr(0, end);
      log.bytes[at] = static_cast<char>(log.bytes[at] ^ 0x10);
      const LogTail tail = log.tail();
      CHECK(tail.whole_bytes == begin);
      CHECK(tail.torn);
      CHECK(tail.frame_after);
    }
  }
}

TEST_CASE("damage anywhere in a long log shows, wherever the frame after it lies") {
  for (const std::size_t gap : {65'000u, 65'536u - 30, 65'536u - 24, 65'536u - 4, 200'000u}) {
    FrameImage log;
    log.add("first");
    const std::size_t begin = log.add(std::string(gap, 'r'));
    log.add("last");
    std::fill(log.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
              log.bytes.begin() + static_cast<std::ptrdiff_t>(begin + gap), '\0');
    CHECK(log.tail().frame_after);
    CHECK(log.tail().whole_frames == 1);
  }
}

TEST_CASE("frames in the bytes of a frame, of an earlier number or of another file are no proof") {
  const std::string inner =
      frame_of(7, "of another file", kMarker + 1) + frame_of(0, "of an earlier number");
  FrameImage log;
  log.add("first");
  const std::size_t begin = log.add(inner + inner);
  log.bytes[begin + 2] = static_cast<char>(log.bytes[begin + 2] ^ 1);
  CHECK(log.tail().torn);
  CHECK(!log.tail().frame_after);
}

TEST_CASE("a log of another file is foreign; one without a beginning is not") {
  FrameImage log;
  log.add("first");
  CHECK(log.tail(kMarker + 1).foreign);
  CHECK(!log.tail().foreign);
  std::fill(log.bytes.begin(), log.bytes.begin() + kFrameHeadBytes, '\0');
  CHECK(!log.tail().foreign);
  CHECK(log.tail().torn);
  log.bytes = "cut";
  CHECK(!log.tail().foreign);
}

}  // namespace
}  // namespace penstock
