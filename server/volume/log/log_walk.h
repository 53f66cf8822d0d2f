// Reads the records of one log file, and says where they end and why.
//
// A log file is made of zeros, all of it written and synced, before its first record. Records begin
// at multiples of 4096, so that none shares a sector with one that was acknowledged before it. One
// that takes several such pages is written from its second page on, then its first: a process that
// is killed within that leaves no head. So in the boot that wrote a file, a head without its bytes,
// or a first page that is neither a head nor zeros, is damage. After a power cut it may be a
// write that was cut off, unless a later record follows it.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "penstock/result.h"
#include "server/volume/disk/disk.h"
#include "server/volume/log/log_frames.h"

namespace penstock {

inline constexpr std::uint64_t kLogPageBytes = 4096;
inline std::uint64_t log_pages(std::uint64_t bytes) {
  return (bytes + kLogPageBytes - 1) / kLogPageBytes * kLogPageBytes;
}

struct LogEnd {
  std::uint64_t bytes = 0;    // where the next record begins
  std::uint64_t records = 0;  // whole ones before that
  std::uint64_t last_at = 0;  // where the last of them begins
  bool begun = false;         // what follows begins with something else than a page of zeros
  bool record_after = false;  // a later record follows: what ends here is damaged
  // It has no record, and begins as none of its own does, whole or torn at 512 bytes.
  bool foreign = false;
};

// `offset` is that of the payload in the file. What it returns ends the walk.
using LogVisit =
    std::function<Result<>(std::uint64_t record, std::uint64_t offset, std::string_view payload)>;
// Where a walk begins.
struct LogPosition {
  std::uint64_t bytes = 0;
  std::uint64_t record = 0;
};
// Visits all whole records in order, those of this file: 0, 1, 2 …. Errors: those of the file and
// of `visit`, which may be empty.
Result<LogEnd> walk_log(File& file, std::uint64_t marker, std::uint64_t file_bytes,
                        const LogVisit& visit, LogPosition from = {});

// Is it a file with this marker, by its first page? For one with records.
Result<bool> begins_log(File& file, std::uint64_t marker);
// Is its first page of zeros, as if it had no record yet?
Result<bool> is_unwritten(File& file);
// Writes zeros over what is left of a write that was cut off, from `offset` on.
Result<> clear_log(File& file, std::uint64_t offset, std::uint64_t file_bytes);

}  // namespace penstock
