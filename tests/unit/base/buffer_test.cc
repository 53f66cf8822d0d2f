#include "penstock/buffer.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace penstock {
namespace {

constexpr std::size_t kPart = 512 << 10;  // a quarter of a huge page

TEST_CASE("buffers of 512 KiB are aligned and share no byte") {
  BufferPool pool(0);
  std::vector<Buffer> buffers;
  std::set<std::byte*> places;
  for (int i = 0; i < 9; ++i) {
    buffers.push_back(pool.get(kPart - 7));
    CHECK(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % 4096 == 0);
    std::memset(buffers.back().data(), i, kPart - 7);
    for (std::byte* other : places) CHECK(std::abs(other - buffers.back().data()) >= kPart);
    places.insert(buffers.back().data());
  }
  for (int i = 0; i < 9; ++i) {
    for (const std::byte byte : buffers[i].bytes()) REQUIRE(std::to_integer<int>(byte) == i);
  }
}

TEST_CASE("no more than was asked for stays idle once all is given back, in any order") {
  for (const std::size_t keep : {std::size_t{0}, 6 * kPart, 8 * kPart}) {
    BufferPool pool(keep);
    for (const std::size_t step : {1, 2, 3, 5}) {
      std::vector<Buffer> buffers;
      for (int i = 0; i < 32; ++i) buffers.push_back(pool.get(kPart));
      for (std::size_t first = 0; first < step; ++first) {
        for (std::size_t i = first; i < buffers.size(); i += step) buffers[i] = Buffer();
      }
      CHECK(pool.idle_bytes() <= keep + 3 * kPart);
      if (keep == 0) CHECK(pool.idle_bytes() == 0);
    }
  }
}

bool is_mapped(std::byte* place) {
  unsigned char pages[kPart / 4096];
  if (::mincore(place, kPart, pages) == 0) return true;
  CHECK(errno == ENOMEM);
  return false;
}

TEST_CASE("what does not stay idle is the system's again") {
  std::byte* place = nullptr;
  SUBCASE("there is no room for it") {
    BufferPool pool(0);
    place = pool.get(kPart).data();
  }
  SUBCASE("nobody took it for a while") {
    BufferPool pool(128 * kPart);
    place = pool.get(kPart).data();
    pool.trim();
    CHECK(is_mapped(place));
    pool.trim();
    CHECK(!is_mapped(place));
  }
  SUBCASE("the pool has gone") {
    BufferPool pool(128 * kPart);
    place = pool.get(kPart).data();
    CHECK(is_mapped(place));
  }
  CHECK(!is_mapped(place));
}

TEST_CASE("a huge page that took the place of another one was not idle all the time") {
  BufferPool pool(8 * kPart);  // a quarter is for threads
  std::vector<Buffer> buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back(pool.get(kPart));
  for (int i = 0; i < 4; ++i) buffers.push_back(pool.get(kPart / 2));
  buffers.resize(4);
  CHECK(pool.idle_bytes() == 6 * kPart);
  pool.trim();
  buffers.clear();  // with one of its parts there is too much, and the page that was idle goes
  CHECK(pool.idle_bytes() == 6 * kPart);
  pool.trim();
  CHECK(pool.idle_bytes() == 4 * kPart);
}

TEST_CASE("what nobody took between two trims is the system's again, what was taken stays") {
  for (const std::size_t size : {kPart, std::size_t{256} << 10, std::size_t{16} << 10}) {
    CAPTURE(size);
    const std::size_t count = 8;
    BufferPool pool(128 * kPart);
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

TEST_CASE("what is idle of a huge page stays while a part of it is in use") {
  BufferPool pool(128 * kPart);
  const Buffer part = pool.get(kPart);
  std::memset(part.data(), 7, kPart);
  for (int i = 0; i < 3; ++i) pool.trim();
  CHECK(pool.idle_bytes() == 3 * kPart);
  std::vector<Buffer> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(pool.get(kPart));
    CHECK(std::abs(others.back().data() - part.data()) < 4 * kPart);
  }
  CHECK(pool.idle_bytes() == 0);
  CHECK(std::to_integer<int>(part.bytes().back()) == 7);
}

TEST_CASE("parts are taken of the page with the fewest, so that others can go") {
  BufferPool pool(128 * kPart);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(pool.get(kPart));
  std::ranges::sort(buffers, {}, &Buffer::data);  // page by page, if the system maps them so
  const auto page_of = [](const Buffer& part) {
    return reinterpret_cast<std::uintptr_t>(part.data()) / (4 * kPart);
  };
  for (const int i : {4, 5, 6, 1, 8, 9, 10, 11}) buffers[i] = Buffer();  // 3, 1, all, none
  CHECK(pool.idle_bytes() == 8 * kPart);
  const Buffer taken = pool.get(kPart);
  CHECK(page_of(taken) == page_of(buffers[0]));
  buffers[7] = Buffer();  // of the page of which three are idle
  pool.trim();
  pool.trim();
  CHECK(pool.idle_bytes() == 0);
}

TEST_CASE("a buffer is taken again, and may outlive its pool") {
  Buffer left;
  {
    BufferPool pool(8 * kPart);
    std::byte* const place = pool.get(kPart).data();
    left = pool.get(kPart);
    CHECK(left.data() == place);
  }
  std::memset(left.data(), 1, left.size());
}

TEST_CASE("small buffers are a thread's own again, whichever thread gives them back") {
  constexpr std::size_t kSmall = 16 << 10;
  BufferPool pool(32 * kPart);
  Buffer taken = pool.get(kSmall);
  std::byte* const place = taken.data();
  std::thread([&] {
    CHECK(pool.get(kSmall).data() != place);
    taken = Buffer();
  }).join();
  CHECK(pool.get(kSmall).data() == place);
}

TEST_CASE("threads that take and give back small buffers keep no more than was asked for") {
  constexpr std::size_t kKeep = 32 * kPart;
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
