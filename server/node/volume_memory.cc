#include "server/node/volume_memory.h"

#include <algorithm>

#include "penstock/limits.h"

namespace penstock {
namespace {

using limits::kKiB;
using limits::kMiB;

// LevelDB keeps 64 tables open at least, and has 10 files more. The index and the filter of an open
// table, 1.5 % of it, are in memory: so with little memory tables are smaller.
constexpr std::size_t kOpenTablesMin = 64;
constexpr std::size_t kOtherFiles = 10;
constexpr std::size_t kTableBytesMin = 2 * kMiB;
std::size_t index_bytes(std::size_t table_bytes) { return table_bytes / 64; }

}  // namespace

void spend_memory(std::size_t per_volume, RowReaders readers, VolumeOptions& options) {
  DatabaseOptions& database = options.database;
  // Two buffers: one that fills, and one that becomes a table.
  database.write_buffer_bytes = std::clamp(per_volume / 16, 256 * kKiB, 4 * kMiB);
  if (readers == RowReaders::own_process) {
    options.registers.cache_bytes = std::clamp(per_volume / 10, 384 * kKiB, 16 * kMiB);
    // Of little memory LevelDB's least takes nearly all.
    const std::size_t part = per_volume < 8 * kMiB ? 16 : 5;
    options.registers.ballot_bytes = std::min(per_volume / part, 32 * kMiB);
  } else {
    options.registers.cache_bytes = std::clamp(per_volume / 5, 512 * kKiB, 32 * kMiB);
    options.registers.ballot_bytes = 0;
  }
  options.fragments.cache_bytes = std::clamp(per_volume / 16, 256 * kKiB, 8 * kMiB);
  database.block_cache_bytes = std::clamp(per_volume / 32, 64 * kKiB, 2 * kMiB);
  const std::size_t spent = 2 * database.write_buffer_bytes + options.registers.cache_bytes +
                            options.registers.ballot_bytes + options.fragments.cache_bytes +
                            database.block_cache_bytes;
  const std::size_t left = per_volume - std::min(per_volume, spent);
  database.table_bytes = std::clamp(left, kTableBytesMin, database.table_bytes);
  const std::size_t tables = std::max(left / index_bytes(database.table_bytes), kOpenTablesMin);
  database.open_files_max =
      std::min(static_cast<int>(tables + kOtherFiles), database.open_files_max);
}

}  // namespace penstock
