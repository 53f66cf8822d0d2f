#include "server/volume/disk/cached_pages.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>

#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::size_t kPageBytes = 4096;

// cachestat(2); Debian 12 has no header for it yet.
constexpr long kCachestat = 451;
struct CachestatRange {
  std::uint64_t offset, length;
};
struct Cachestat {
  std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

// It is missing, or what the process may not call (containers). Found once for all files.
std::atomic<bool> cachestat_missing{false};

// nullopt: ask otherwise.
std::optional<bool> has_by_cachestat(int file, std::uint64_t offset, std::size_t length) {
  if (cachestat_missing.load(std::memory_order_relaxed)) return std::nullopt;
  const std::uint64_t first = offset / kPageBytes;
  const std::uint64_t end = (offset + length + kPageBytes - 1) / kPageBytes;
  CachestatRange range{first * kPageBytes, (end - first) * kPageBytes};
  Cachestat found{};
  if (::syscall(kCachestat, file, &range, &found, 0U) == 0) return found.cached == end - first;
  const bool missing = errno == ENOSYS || errno == EPERM;
  if (missing) cachestat_missing.store(true, std::memory_order_relaxed);
  return std::nullopt;
}

}  // namespace

CachedPages::~CachedPages() {
  if (map_ != MAP_FAILED) ::munmap(map_, bytes_);
}

bool CachedPages::has(int file, std::uint64_t offset, std::size_t length) {
  if (by_ == By::cachestat) {
    if (const auto found = has_by_cachestat(file, offset, length)) return *found;
  }
  return has_by_mincore(file, offset, length);
}

bool CachedPages::has_by_mincore(int file, std::uint64_t offset, std::size_t length) {
  std::call_once(once_, [&] { map(file); });
  if (map_ == MAP_FAILED || offset > bytes_ || length > bytes_ - offset) return false;
  const std::uint64_t from = offset / kPageBytes * kPageBytes;
  const auto span = static_cast<std::size_t>(offset + length - from);
  std::array<unsigned char, limits::kPieceBytes / kPageBytes + 2> pages{};
  const std::size_t count = (span + kPageBytes - 1) / kPageBytes;
  if (count > pages.size()) return false;
  if (::mincore(static_cast<char*>(map_) + from, span, pages.data()) != 0) return false;
  return std::all_of(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(count),
                     [](unsigned char page) { return (page & 1) != 0; });
}

void CachedPages::map(int file) {
  struct stat now {};
  if (::sysconf(_SC_PAGESIZE) != kPageBytes) return;
  if (::fstat(file, &now) != 0 || now.st_size <= 0) return;
  bytes_ = static_cast<std::size_t>(now.st_size);
  map_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0);
}

}  // namespace penstock
