#include "server/node/volume_memory.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "penstock/limits.h"

namespace penstock {
namespace {

using limits::kMiB;

// What the volume may hold: two buffers of rows, caches, the indexes of 64 tables or more.
std::size_t spent_by(const VolumeOptions& options) {
  const DatabaseOptions& database = options.database;
  const auto tables = std::max<std::size_t>(database.open_files_max - 10, 64);
  return 2 * database.write_buffer_bytes + database.block_cache_bytes +
         options.registers.cache_bytes + options.registers.ballot_bytes +
         options.fragments.cache_bytes + tables * database.table_bytes / 64;
}

TEST_CASE("A volume spends what it was given, and no more but for the least that it needs") {
  for (const RowReaders readers : {RowReaders::own_process, RowReaders::other_processes}) {
    for (const std::size_t part : {12 * kMiB, 30 * kMiB, 50 * kMiB, 80 * kMiB, 128 * kMiB}) {
      VolumeOptions options;
      spend_memory(part, readers, options);
      CAPTURE(part / kMiB);
      CHECK(spent_by(options) <= part);
      CHECK(spent_by(options) >= part * 3 / 4);
    }
    VolumeOptions least;
    spend_memory(3 * kMiB, readers, least);
    CHECK(spent_by(least) <= 5 * kMiB);
  }
}

TEST_CASE("Ballots have memory where their volume is asked for them, rows where it is not") {
  VolumeOptions own, others;
  spend_memory(35 * kMiB, RowReaders::own_process, own);
  spend_memory(35 * kMiB, RowReaders::other_processes, others);
  CHECK(own.registers.ballot_bytes == 7 * kMiB);
  CHECK(others.registers.ballot_bytes == 0);
  CHECK(others.registers.cache_bytes == 2 * own.registers.cache_bytes);
}

}  // namespace
}  // namespace penstock
