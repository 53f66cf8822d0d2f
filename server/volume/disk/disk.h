// The disk under one volume: files by name in one directory tree. LevelDB (through our Env),
// segments and fragment files all go through it, so that faults, power cuts and the simulator's
// disk reach everything that is stored.
//
// All calls block; they are made on workers, never on an I/O thread, except read_now() and a pin()
// that may not block. Names are relative to the volume's directory. Errors: io - the call failed;
// not_found; full - no space; overloaded - the process or the machine has no descriptor or memory
// left for the call: nothing was done, and nothing is said of the disk.
// Thread-safety: Disk: any thread. File: reads from any thread; writes and sync from one thread at
// a time per range.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/pinned_pages.h"
#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

class File {
 public:
  virtual ~File() = default;  // closes; what was not synced may be lost
  // Reads up to buffer.size() bytes; fewer only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, MutBytes buffer) = 0;
  // The same only if it needs no I/O (pages in memory); nullopt: it would block, or passes the end.
  virtual std::optional<Result<std::size_t>> read_now(std::uint64_t offset, MutBytes buffer) = 0;
  // Pins the pages of these bytes; without `may_block` only if that needs no I/O. False: it could
  // not, or not now. Pre: descriptor() is one; as PinnedPages::pin().
  virtual bool pin(PinnedPages& pages, std::uint64_t offset, std::size_t length, bool may_block) {
    (void)pages, (void)offset, (void)length, (void)may_block;
    return false;
  }
  // Writes all of `parts`, one behind the other: 1 … kPartsMax. With `direct` opened files: offset,
  // lengths and addresses are multiples of 4096.
  static constexpr std::size_t kPartsMax = 64;
  virtual Result<> write_parts(std::uint64_t offset, std::span<const ConstBytes> parts) = 0;
  Result<> write_at(std::uint64_t offset, ConstBytes data) {
    return write_parts(offset, {&data, 1});
  }
  virtual Result<> sync() = 0;  // fdatasync
  // Reserves space; its contents are undefined until written.
  virtual Result<> allocate(std::uint64_t offset, std::uint64_t length) = 0;
  virtual Result<> truncate(std::uint64_t length) = 0;
  virtual Result<std::uint64_t> size() const = 0;
  // For sendfile and pin(); -1 if the file is not a real one.
  virtual int descriptor() const { return -1; }
};

enum class OpenMode : std::uint8_t {
  read,       // must exist
  write_new,  // created or truncated; buffered; reads allowed
  append,     // created if absent, kept; buffered
  direct,     // must exist; O_DIRECT where the file system can (probed), else buffered; reads go
              // through a second, buffered handle
};

class Disk {
 public:
  virtual ~Disk() = default;
  virtual Result<std::unique_ptr<File>> open(const std::string& name, OpenMode mode) = 0;
  virtual Result<> rename(const std::string& from, const std::string& to) = 0;
  virtual Result<> remove(const std::string& name) = 0;
  // Names only, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
  virtual Result<> make_directory(const std::string& name) = 0;  // existing: success
  virtual Result<> sync_directory(const std::string& name) = 0;  // "" = the volume's own
  virtual bool exists(const std::string& name) = 0;
  virtual Result<std::uint64_t> file_size(const std::string& name) = 0;
  // Takes an exclusive lock that ends with the process. Errors: busy - another process holds it.
  virtual Result<std::unique_ptr<File>> lock(const std::string& name) = 0;
  struct Space {
    std::uint64_t free_bytes = 0, total_bytes = 0;
    std::uint64_t device = 0;
  };
  virtual Result<Space> space() = 0;
  // For messages: the real path, or the simulator's name.
  virtual std::string path(const std::string& name) const = 0;
  // Is the volume's directory still the one found under its path? Errors: not_found - it was
  // removed, replaced or unmounted.
  virtual Result<> check_directory() { return {}; }
  // What a file's inode, size and times say: the same text as before, the same bytes. Needs no
  // descriptor. Empty: cannot be told, look at the bytes.
  virtual Result<std::string> stamp(const std::string& name) {
    (void)name;
    return std::string();
  }
};

// The real one. Errors of make: not_found - no such directory.
Result<std::unique_ptr<Disk>> make_posix_disk(std::string directory);

// Latches: after the first failed write, sync, truncate, allocate, rename, remove or create, every
// later changing call fails with the first error, for ever (ATC'20, "Can Applications Recover from
// fsync Failures?"). Failures that change and promise nothing do not latch: `overloaded`, an
// allocate or a create that finds the disk full, a remove or a direct open of a name that is
// absent, reads. A failed sync always does. An exception of the disk below is a failure of that one
// call. Wraps any Disk; `on_failure` is called once, on the thread that saw the failure.
std::unique_ptr<Disk> make_latching_disk(std::unique_ptr<Disk> disk,
                                         std::function<void(const Error&)> on_failure);

// Gives space back when a write or a create finds the disk full: calls `release` and, if that
// returns true, tries the call once more. A sync is never tried again. Wraps any Disk; belongs
// below the latching one.
std::unique_ptr<Disk> make_ballast_disk(std::unique_ptr<Disk> disk, std::function<bool()> release);

}  // namespace penstock
