// Which pages of a file are in memory, without asking the disk for one. cachestat(2) of Linux 6.5
// looks at a large folio once and needs no mapping; where it is missing, mincore(2) of a mapping
// that nobody reads.
// Thread-safety: all methods from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace penstock {

class CachedPages {
 public:
  enum class By : std::uint8_t { cachestat, mincore };

  // `by`: what is tried first.
  explicit CachedPages(By by = By::cachestat) : by_(by) {}
  CachedPages(const CachedPages&) = delete;
  CachedPages& operator=(const CachedPages&) = delete;
  ~CachedPages();

  // Are these `length` bytes from `offset` on in memory? What passes the last page of the file
  // never is; by mincore, neither is what the file did not have at the first look. A page may be
  // lost, or still be on its way from the disk: only a read that does not wait tells. Waits for no
  // disk.
  bool has(int file, std::uint64_t offset, std::size_t length);

 private:
  bool has_by_mincore(int file, std::uint64_t offset, std::size_t length);
  void map(int file);

  const By by_;
  std::once_flag once_;
  void* map_ = reinterpret_cast<void*>(-1);  // MAP_FAILED: none
  std::size_t bytes_ = 0;
};

}  // namespace penstock
