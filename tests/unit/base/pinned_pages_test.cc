#include "penstock/pinned_pages.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake/piece_bytes.h"
#include "tests/fake/temporary_directory.h"

namespace penstock {
namespace {

constexpr std::size_t kMiB = 1 << 20;

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
  return text;
}

// A file with known bytes.
struct Fixture {
  Fixture() : file(::open((where.path / "f").c_str(), O_CREAT | O_RDWR, 0600)) {
    REQUIRE(file >= 0);
    REQUIRE(::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    REQUIRE(::fdatasync(file) == 0);
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  }
  ~Fixture() {
    ::close(file);
    for (const int end : ends) ::close(end);
  }
  TemporaryDirectory where;
  std::string text = pattern(3 * kMiB + 17);
  int file;
  std::array<int, 2> ends{};
};

TEST_CASE("Pinned bytes are sent as they are, whatever the reader takes at a time") {
  Fixture fixture;
  for (const auto& [offset, length] : {std::pair<std::size_t, std::size_t>{0, kMiB},
                                       {kMiB + 1, kMiB - 1},
                                       {4095, 2},
                                       {3 * kMiB, 17},
                                       {12'345, 700'001}}) {
    CAPTURE(offset);
    REQUIRE(PinnedPages::fits(offset, length));
    const auto pages = PinnedPages::make();
    REQUIRE(pages);
    REQUIRE(pages->pin(fixture.file, offset, length));
    CHECK(pages->left() == length);
    CHECK(sent_bytes(*pages) == fixture.text.substr(offset, length));
  }
}

TEST_CASE("What is pinned stays what it was when the disk's bytes change under the page cache") {
  Fixture fixture;
  const int direct = ::open((fixture.where.path / "f").c_str(), O_RDWR | O_DIRECT);
  if (direct < 0) return;  // this file system has no direct writes
  const auto pages = PinnedPages::make();
  REQUIRE(pages->pin(fixture.file, 0, kMiB));
  alignas(4096) static std::array<char, 65'536> damage{};
  for (std::size_t at = 0; at < kMiB; at += damage.size()) {
    REQUIRE(::pwrite(direct, damage.data(), damage.size(), static_cast<off_t>(at)) > 0);
  }
  ::close(direct);
  REQUIRE(::posix_fadvise(fixture.file, 0, 0, POSIX_FADV_DONTNEED) == 0);
  CHECK(sent_bytes(*pages) == fixture.text.substr(0, kMiB));
}

TEST_CASE("What does not fit, or is not there, is not pinned") {
  Fixture fixture;
  CHECK_FALSE(PinnedPages::fits(0, 0));
  CHECK_FALSE(PinnedPages::fits(0, kMiB + 1));
  CHECK_FALSE(PinnedPages::fits(1, kMiB));
  CHECK(PinnedPages::fits(1, kMiB - 1));
  const auto past_the_end = PinnedPages::make();
  CHECK_FALSE(past_the_end->pin(fixture.file, 3 * kMiB, 18));
  const auto no_file = PinnedPages::make();
  CHECK_FALSE(no_file->pin(-1, 0, 10));
}

TEST_CASE("Pages that nobody has sent are in nobody else's way") {
  Fixture fixture;
  {
    const auto dropped = PinnedPages::make();
    REQUIRE(dropped->pin(fixture.file, 0, 10'000));
    REQUIRE(dropped->send(fixture.ends[0], 100) == 100);
  }
  std::array<char, 200> taken{};
  REQUIRE(::recv(fixture.ends[1], taken.data(), taken.size(), 0) == 100);
  const auto next = PinnedPages::make();
  REQUIRE(next->pin(fixture.file, kMiB, 5'000));
  CHECK(sent_bytes(*next) == fixture.text.substr(kMiB, 5'000));
}

TEST_CASE("There are no more pipes than allowed, and those of a thread end with it") {
  constexpr unsigned kMost = 24;  // the pages of all pipes of a user have a bound, too
  PinnedPages::allow(kMost);
  for (int round = 0; round < 3; ++round) {
    std::thread([] {
      std::vector<std::unique_ptr<PinnedPages>> all;
      for (unsigned i = 0; i < kMost; ++i) {
        auto pages = PinnedPages::make();
        if (pages) all.push_back(std::move(pages));
      }
      CHECK(all.size() >= kMost - PinnedPages::kKeptMax);  // another thread keeps the others
      CHECK(PinnedPages::make() == nullptr);
      all.pop_back();
      CHECK(PinnedPages::make() != nullptr);
    }).join();
  }
  std::thread([] {
    PinnedPages::allow(0);
    CHECK(PinnedPages::make() == nullptr);
    PinnedPages::allow(PinnedPages::kPipesMax);
    CHECK(PinnedPages::make() != nullptr);
  }).join();
}

}  // namespace
}  // namespace penstock
