// A scan reads a table block after block, and each would be a system call of its own. While a
// ReadAhead lives, its thread reads files that it reads in order in larger steps.
//
// Tables never change once they are read, and each file has a number of its own, so that what was
// read ahead is never taken for the bytes of another. Thread-safety: none; they nest.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "penstock/types.h"
#include "server/volume/disk/disk.h"

namespace penstock {

class ReadAhead {
 public:
  static constexpr std::size_t kWindowBytes = 32 * 1024;
  // Files that are read in order at the same time; what is more goes without.
  static constexpr std::size_t kFilesMax = 8;

  ReadAhead() : outer_(current_) { current_ = this; }
  ~ReadAhead() { current_ = outer_; }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  // Null: none lives.
  static ReadAhead* of_this_thread() { return current_; }

  // Fills all of `buffer` from `offset` on. False: read it yourself; this is not in order, or there
  // is an end or a failure within the window. May block.
  bool read(std::uint64_t file_number, File& file, std::uint64_t offset, MutBytes buffer);

 private:
  struct Window {
    std::uint64_t file_number = 0;  // 0: none
    std::uint64_t next = 0;         // where a read in order would begin
    std::uint64_t begin = 0;
    std::uint64_t failed_until = 0;  // the end of a window that could not be read
    std::vector<std::byte> bytes;
  };
  Window& window_of(std::uint64_t file_number);

  static thread_local ReadAhead* current_;
  ReadAhead* const outer_;
  std::array<Window, kFilesMax> windows_;
  std::size_t next_victim_ = 0;
};

}  // namespace penstock
