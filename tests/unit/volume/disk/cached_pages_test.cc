#include "server/volume/disk/cached_pages.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "penstock/limits.h"
#include "tests/fake/temporary_directory.h"

namespace penstock {
namespace {

constexpr std::size_t kPage = 4096;

struct OpenFile {
  explicit OpenFile(const TemporaryDirectory& where, std::size_t bytes)
      : fd(::open((where.path / "f").c_str(), O_CREAT | O_RDWR, 0600)) {
    REQUIRE(fd >= 0);
    const std::string text(bytes, 'x');
    REQUIRE(::pwrite(fd, text.data(), bytes, 0) == static_cast<ssize_t>(bytes));
    REQUIRE(::fdatasync(fd) == 0);
  }
  ~OpenFile() { ::close(fd); }
  // False: this file system keeps its pages (tmpfs).
  bool evict() const {
    REQUIRE(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    return !CachedPages(CachedPages::By::mincore).has(fd, 0, 1);
  }
  void read(std::size_t offset, std::size_t bytes) const {
    REQUIRE(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0);  // and nothing behind it
    std::vector<char> buffer(bytes);
    REQUIRE(::pread(fd, buffer.data(), bytes, static_cast<off_t>(offset)) > 0);
  }
  int fd;
};

TEST_CASE("Both ways tell what is in memory, page by page") {
  TemporaryDirectory where;
  OpenFile file(where, 64 * kPage + 100);
  CachedPages by_stat(CachedPages::By::cachestat), by_map(CachedPages::By::mincore);
  const auto has = [&](std::uint64_t offset, std::size_t length) {
    const bool found = by_stat.has(file.fd, offset, length);
    CHECK(by_map.has(file.fd, offset, length) == found);
    return found;
  };
  CHECK(has(0, 64 * kPage + 100));
  CHECK(has(5, 1));
  CHECK(has(64 * kPage + 50, 50));
  CHECK_FALSE(has(65 * kPage, 1));          // behind the end
  CHECK_FALSE(has(64 * kPage, 2 * kPage));  // past it
  if (!file.evict()) return;
  CHECK_FALSE(has(0, 1));
  CHECK_FALSE(has(64 * kPage, 100));
  file.read(16 * kPage, kPage);
  CHECK_FALSE(has(0, 64 * kPage));
  CHECK_FALSE(has(15 * kPage, kPage + 1));
  CHECK(has(16 * kPage, kPage));
  CHECK(has(16 * kPage + 7, kPage - 7));
  CHECK_FALSE(has(16 * kPage + kPage - 1, 50 * kPage));
}

TEST_CASE("A file that grows is looked at as it is, but by a map as it was") {
  TemporaryDirectory where;
  OpenFile file(where, kPage);
  CachedPages by_stat(CachedPages::By::cachestat), by_map(CachedPages::By::mincore);
  CHECK(by_map.has(file.fd, 0, kPage));
  REQUIRE(::pwrite(file.fd, "x", 1, 3 * kPage) == 1);
  CHECK_FALSE(by_map.has(file.fd, 3 * kPage, 1));
  CHECK(CachedPages(CachedPages::By::mincore).has(file.fd, 3 * kPage, 1));
  (void)by_stat.has(file.fd, 3 * kPage, 1);  // true where the system has the call
}

TEST_CASE("What is no file has no pages") {
  CachedPages pages;
  CHECK_FALSE(pages.has(-1, 0, 1));
}

}  // namespace
}  // namespace penstock
