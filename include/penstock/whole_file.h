// Files that are read and replaced whole: maps, notes of a process. Not for a volume's disk, whose
// calls are watched. Thread-safety: any thread; calls block on the file system.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "penstock/result.h"

namespace penstock {

// Errors: not_found; invalid - no regular file, or longer than `bytes_max`; io.
Result<std::string> read_whole_file(const std::string& path, std::size_t bytes_max);
// Old or new, never between: temporary name in the same directory, sync, rename, sync of the
// directory. Durable when it succeeds; after an error it may be there or not. A new file gets
// `mode`, and so does one that is there, unless it keeps its own. Errors: io; full.
enum class ModeOfOld : bool { replaced, kept };
Result<> replace_whole_file(const std::string& path, std::string_view bytes, unsigned mode = 0600,
                            ModeOfOld old = ModeOfOld::kept);

// Makes a file that is not there, whole or not at all and as durably; one that is there stays as it
// is. Errors: invalid - there is one; io; full.
Result<> make_whole_file(const std::string& path, std::string_view bytes, unsigned mode = 0600);

// The exclusive lock on a file that is made if it is not there: flock(2), gone with the process.
class FileLock {
 public:
  // Errors: busy - another holds it; io.
  static Result<FileLock> try_lock(const std::string& path);
  FileLock() = default;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();
  bool held() const { return fd_ >= 0; }
  // What the file says, for people who find it locked.
  Result<> write(std::string_view bytes) const;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace penstock
