#include "server/volume/rows/leveldb_checksum.h"

#include <atomic>
#include <span>

#include "penstock/checksum.h"

namespace {
std::atomic<bool> leveldb_has_asked{false};
}  // namespace

std::uint32_t leveldb::crc32c::Extend(std::uint32_t crc, const char* data, std::size_t bytes) {
  if (!leveldb_has_asked.load(std::memory_order_relaxed)) leveldb_has_asked.store(true);
  return penstock::crc32c(std::as_bytes(std::span(data, bytes)), crc);
}

namespace penstock {
bool is_leveldb_checksum_ours() { return leveldb_has_asked.load(); }
}  // namespace penstock
