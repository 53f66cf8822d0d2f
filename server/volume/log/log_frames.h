// The frames in which a volume keeps its logs and its manifest, and where such a file ends after a
// crash. (Where a log file ends that is made of zeros in advance: log_walk.h.)
//
//   u64 marker | u32 number | u32 length | u32 crc of the bytes | u32 crc of these 20 | bytes
//
// One frame is all that was appended between two syncs, or one record of the volume's log; the next
// is begun only when the sync succeeded. So after a power cut only the last frame can be damaged:
// nobody was told of it, and it may be dropped. The head of a later frame behind a damaged place
// proves that the damaged one was synced: the volume has lost something and must not serve again.
// The marker is a random word of this one file, kept in the witness (log_witness.h) and told to
// nobody: bytes that a user stores can never pass for a frame, nor can those of another file.
// LevelDB's own record format lies inside, unchanged (its log_format page); it could not tell
// a torn end from damage, nor its records from a user's bytes that look like them.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "penstock/result.h"
#include "server/volume/disk/disk.h"

namespace penstock {

inline constexpr std::size_t kFrameHeadBytes = 24;

struct LogFrameHead {
  std::uint64_t marker = 0;
  std::uint32_t number = 0;  // 0, 1, 2 … within the file
  std::uint32_t length = 0;  // bytes behind the head
  std::uint32_t crc = 0;     // of these bytes
};
// `out`: kFrameHeadBytes.
void write_frame_head(const LogFrameHead& head, char* out);
// nullopt: it is damaged, or not of this file.
std::optional<LogFrameHead> read_frame_head(std::string_view bytes, std::uint64_t marker);

struct LogTail {
  std::uint64_t file_bytes = 0;
  std::uint64_t whole_bytes = 0;   // end of the last whole frame, in the file
  std::uint64_t whole_frames = 0;  // frames 0 … whole_frames - 1 are whole
  bool torn = false;               // something that is no whole frame follows
  bool cut_short = false;          // ... and may be the beginning of one that the file's end cuts
  bool frame_after = false;        // ... and then the head of a later frame
  // The file begins as none of its own frames does, whole or torn at 512 bytes.
  bool foreign = false;
};

// Of a file whose frames follow each other up to its end. Errors: those of the file.
Result<LogTail> read_log_tail(File& file, std::uint64_t marker);

}  // namespace penstock
