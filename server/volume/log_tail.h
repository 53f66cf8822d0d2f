// Where a LevelDB log (or manifest) ends after a crash.
//
// LevelDB appends one logical record for each synced batch and starts the next only when the sync
// succeeded. So after a power cut at most the last logical record can be damaged: it was never
// acknowledged and may be dropped. A damaged place that is followed by the start of another valid
// record was acknowledged once: the volume has lost something and must not serve again.
// Without a power cut (same boot) nothing is torn but by a write that was cut off between pages:
// then damage of the last record is damage, too.
// LevelDB itself cannot tell the two apart: with paranoid checks it refuses both, without them it
// skips both in silence. Therefore our Env reads a log with this first, shows LevelDB only its
// whole records, and refuses a log that is damaged before its end. Format:
// leveldb/doc/log_format.md.
#pragma once
#include <cstdint>

#include "penstock/result.h"
#include "server/volume/disk.h"

namespace penstock {

struct LogTail {
  std::uint64_t file_bytes = 0;
  std::uint64_t whole_bytes = 0;  // end of the last whole logical record
  bool torn = false;              // something that is no whole record follows
  bool record_after = false;      // ... and then the start of a valid record
};

// Errors: those of the file.
Result<LogTail> read_log_tail(File& file);

}  // namespace penstock
