// The checksums of LevelDB's logs and tables, by the processor instead of by LevelDB's own tables,
// which took a quarter of each read that misses the caches. The values are the same.
//
// LevelDB is linked as a static library. Its object of `crc32c::Extend` is left out, since the
// function is defined here, in an object that every program with a database has: database.cc asks
// it. A link that does otherwise ends the process at the first open.
#pragma once
#include <cstddef>
#include <cstdint>

namespace leveldb::crc32c {
// Continues the finished CRC32C `crc` over `bytes` bytes. As LevelDB declares it.
std::uint32_t Extend(std::uint32_t crc, const char* data, std::size_t bytes);
}  // namespace leveldb::crc32c

namespace penstock {

// Has LevelDB asked for a checksum here? It does so whenever it opens a database.
// Thread-safety: any thread.
bool is_leveldb_checksum_ours();

}  // namespace penstock
