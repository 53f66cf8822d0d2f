#include "server/volume/rows/read_ahead.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace penstock {
namespace {

constexpr std::size_t kBlock = 4101;  // as LevelDB's: 4 KiB and five bytes

class CountedFile final : public File {
 public:
  explicit CountedFile(std::size_t bytes, char first) {
    for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(first + i / 7 % 64);
  }
  Result<std::size_t> read_at(std::uint64_t offset, MutBytes buffer) override {
    ++reads;
    if (offset + buffer.size() > broken_from) return fail(Errc::io, "broken");
    const auto got =
        std::min<std::size_t>(buffer.size(), text.size() - std::min(text.size(), offset));
    std::copy_n(as_bytes(text).data() + offset, got, buffer.data());
    return got;
  }
  std::optional<Result<std::size_t>> read_now(std::uint64_t, MutBytes) override { return {}; }
  Result<> write_parts(std::uint64_t, std::span<const ConstBytes>) override { return {}; }
  Result<> sync() override { return {}; }
  Result<> allocate(std::uint64_t, std::uint64_t) override { return {}; }
  Result<> truncate(std::uint64_t) override { return {}; }
  Result<std::uint64_t> size() const override { return text.size(); }

  std::string text;
  std::uint64_t broken_from = UINT64_MAX;
  int reads = 0;
};

// As a table does it: what is not read ahead is read as it is.
std::string read_from(ReadAhead& ahead, std::uint64_t number, CountedFile& file,
                      std::uint64_t offset, std::size_t bytes) {
  std::string out(bytes, '?');
  const auto buffer = std::as_writable_bytes(std::span(out));
  if (ahead.read(number, file, offset, buffer)) return out;
  const auto got = file.read_at(offset, buffer);
  out.resize(got ? *got : 0);
  return out;
}

}  // namespace

TEST_CASE("blocks that are read in order take few reads of the file, and are its bytes") {
  CountedFile file(60 * kBlock + 17, 'A');
  ReadAhead ahead;
  for (std::size_t at = 0; at < file.text.size(); at += kBlock) {
    const std::size_t bytes = std::min(kBlock, file.text.size() - at);
    REQUIRE(read_from(ahead, 1, file, at, bytes) == file.text.substr(at, bytes));
  }
  CHECK(file.reads <= 12);
}

TEST_CASE("what is read here and there is read as it is") {
  CountedFile file(100 * kBlock, 'A');
  ReadAhead ahead;
  for (std::size_t i = 0; i < 40; ++i) {
    const std::size_t at = i * 37 % 100 * kBlock;
    REQUIRE(read_from(ahead, 1, file, at, kBlock) == file.text.substr(at, kBlock));
  }
  CHECK(file.reads == 40);
}

TEST_CASE("files do not mix, also when there are more than windows") {
  std::vector<CountedFile> files;
  for (std::size_t i = 0; i < ReadAhead::kFilesMax + 3; ++i) {
    files.emplace_back(20 * kBlock, static_cast<char>('0' + i));
  }
  ReadAhead ahead;
  for (std::size_t block = 0; block < 20; ++block) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::size_t at = block * kBlock;
      REQUIRE(read_from(ahead, i + 1, files[i], at, kBlock) == files[i].text.substr(at, kBlock));
    }
  }
}

TEST_CASE("a window that cannot be read costs nobody a block that can") {
  CountedFile file(20 * kBlock, 'A');
  file.broken_from = 4 * kBlock;
  ReadAhead ahead;
  for (std::size_t block = 0; block < 4; ++block) {
    CHECK(read_from(ahead, 1, file, block * kBlock, kBlock) ==
          file.text.substr(block * kBlock, kBlock));
  }
  CHECK(read_from(ahead, 1, file, 4 * kBlock, kBlock).empty());
  CHECK(file.reads == 6);  // each block, and one window: what is bad may take seconds to fail
}

TEST_CASE("it is its thread's, and ends with its scope") {
  CHECK(ReadAhead::of_this_thread() == nullptr);
  {
    ReadAhead outer;
    {
      ReadAhead inner;
      CHECK(ReadAhead::of_this_thread() == &inner);
      std::thread([] { CHECK(ReadAhead::of_this_thread() == nullptr); }).join();
    }
    CHECK(ReadAhead::of_this_thread() == &outer);
  }
  CHECK(ReadAhead::of_this_thread() == nullptr);
}

}  // namespace penstock
