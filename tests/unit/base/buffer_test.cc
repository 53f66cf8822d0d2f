#include "penstock/buffer.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace penstock {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST_CASE("buffers of 1 MiB are aligned and share no byte") {
  BufferPool pool(0);
  std::vector<Buffer> buffers;
  std::set<std::byte*> places;
  for (int i = 0; i < 9; ++i) {
    buffers.push_back(pool.get(kMiB - 7));
    CHECK(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % 4096 == 0);
    std::memset(buffers.back().data(), i, kMiB - 7);
    for (std::byte* other : places) CHECK(std::abs(other - buffers.back().data()) >= kMiB);
    places.insert(buffers.back().data());
  }
  for (int i = 0; i < 9; ++i) {
    for (const std::byte byte : buffers[i].bytes()) REQUIRE(std::to_integer<int>(byte) == i);
  }
}

TEST_CASE("no more than was asked for stays idle once all is given back, in any order") {
  for (const std::size_t keep : {std::size_t{0}, 3 * kMiB, 4 * kMiB}) {
    BufferPool pool(keep);
    for (const std::size_t step : {1, 2, 3, 5}) {
      std::vector<Buffer> buffers;
      for (int i = 0; i < 16; ++i) buffers.push_back(pool.get(kMiB));
      for (std::size_t first = 0; first < step; ++first) {
        for (std::size_t i = first; i < buffers.size(); i += step) buffers[i] = Buffer();
      }
      CHECK(pool.idle_bytes() <= keep + kMiB);
      if (keep == 0) CHECK(pool.idle_bytes() == 0);
    }
  }
}

bool is_mapped(std::byte* place) {
  unsigned char pages[kMiB / 4096];
  if (::mincore(place, kMiB, pages) == 0) return true;
  CHECK(errno == ENOMEM);
  return false;
}

TEST_CASE("what does not stay idle is the system's again") {
  std::byte* place = nullptr;
  SUBCASE("there is no room for it") {
    BufferPool pool(0);
    place = pool.get(kMiB).data();
  }
  SUBCASE("nobody took it for a while") {
    BufferPool pool(64 * kMiB);
    place = pool.get(kMiB).data();
    pool.trim();
    CHECK(is_mapped(place));
    pool.trim();
    CHECK(!is_mapped(place));
  }
  SUBCASE("the pool has gone") {
    BufferPool pool(64 * kMiB);
    place = pool.get(kMiB).data();
    CHECK(is_mapped(place));
  }
  CHECK(!is_mapped(place));
}

TEST_CASE("a huge page that took the place of another one was not idle all the time") {
  BufferPool pool(4 * kMiB);  // a quarter is for threads
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(pool.get(kMiB));
  for (int i = 0; i < 4; ++i) buffers.push_back(pool.get(256 << 10));
  buffers.resize(2);
  CHECK(pool.idle_bytes() == 3 * kMiB);
  pool.trim();
  buffers.clear();  // with one of its halves there is too much, and the page that was idle goes
  CHECK(pool.idle_bytes() == 3 * kMiB);
  pool.trim();
  CHECK(pool.idle_bytes() == 2 * kMiB);
}

TEST_CASE("what nobody took between two trims is the system's again, what was taken stays") {
  for (const std::size_t size : {kMiB, std::size_t{256} << 10, std::size_t{16} << 10}) {
    CAPTURE(size);
    const std::size_t count = 8;
    BufferPool pool(64 * kMiB);
    const auto take = [&](std::size_t n) {
      std::vector<Buffer> buffers;
      for (std::size_t i = 0; i < n; ++i) buffers.push_back(pool.get(size));
    };
    take(count);
    CHECK(pool.idle_bytes() == count * size);
    pool.trim();  // there was none when it began
    CHECK(pool.idle_bytes() == count * size);
    take(count / 2);
    pool.trim();
    CHECK(pool.idle_bytes() == count / 2 * size);
    take(count / 2);
    pool.trim();
    CHECK(pool.idle_bytes() == count / 2 * size);
    pool.trim();
    CHECK(pool.idle_bytes() == 0);
    take(1);
  }
}

TEST_CASE("a half of a huge page stays while the other half is in use") {
  BufferPool pool(64 * kMiB);
  Buffer half = pool.get(kMiB);
  std::memset(half.data(), 7, kMiB);
  for (int i = 0; i < 3; ++i) pool.trim();
  CHECK(pool.idle_bytes() == kMiB);
  const Buffer other = pool.get(kMiB);
  CHECK(std::abs(other.data() - half.data()) == kMiB);
  CHECK(pool.idle_bytes() == 0);
  CHECK(std::to_integer<int>(half.bytes().back()) == 7);
}

TEST_CASE("halves are taken before whole huge pages, so that those can go") {
  BufferPool pool(64 * kMiB);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back(pool.get(kMiB));
  for (const int i : {1, 2, 3, 4, 5}) buffers[i] = Buffer();  // one half, and two whole pages
  const std::size_t idle = pool.idle_bytes();
  CHECK(idle == 5 * kMiB);
  const Buffer taken = pool.get(kMiB);
  pool.trim();
  pool.trim();
  CHECK(pool.idle_bytes() == 0);  // the half was taken
}

TEST_CASE("a buffer is taken again, and may outlive its pool") {
  Buffer left;
  {
    BufferPool pool(2 * kMiB);
    std::byte* const place = pool.get(kMiB).data();
    left = pool.get(kMiB);
    CHECK(left.data() == place);
  }
  std::memset(left.data(), 1, left.size());
}

TEST_CASE("small buffers are a thread's own again, whichever thread gives them back") {
  constexpr std::size_t kSmall = 16 << 10;
  BufferPool pool(16 * kMiB);
  Buffer taken = pool.get(kSmall);
  std::byte* const place = taken.data();
  std::thread([&] {
    CHECK(pool.get(kSmall).data() != place);
    taken = Buffer();
  }).join();
  CHECK(pool.get(kSmall).data() == place);
}

TEST_CASE("threads that take and give back small buffers keep no more than was asked for") {
  constexpr std::size_t kKeep = 16 * kMiB;
  BufferPool pool(kKeep);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      std::vector<Buffer> buffers;
      for (std::size_t i = 0; i < 600; ++i) {
        const std::size_t size = (16 << 10) << (2 * (i % 3));
        buffers.push_back(pool.get(size));
        std::memset(buffers.back().data(), t, size);
        if (i % 2 == 0) buffers.erase(buffers.begin() + static_cast<std::ptrdiff_t>(i / 4));
      }
      for (const Buffer& buffer : buffers) {
        CHECK(std::to_integer<int>(buffer.bytes().front()) == t);
        CHECK(std::to_integer<int>(buffer.bytes().back()) == t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pool.idle_bytes() > 0);
  CHECK(pool.idle_bytes() <= kKeep);
}

}  // namespace
}  // namespace penstock
