// The segment files of a volume: "segments/<number>", allocated once, reused for ever.
//
// Thread-safety: all methods from any thread. Methods that block say so.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/volume/disk/disk.h"
#include "server/volume/fragments/fragment_file.h"
#include "server/volume/fragments/fragment_room.h"
#include "server/volume/fragments/free_space.h"

namespace penstock {

class SegmentSet {
 public:
  // `room` is asked before a segment is made.
  SegmentSet(Disk& disk, FragmentRoom& room, std::uint64_t segment_bytes)
      : disk_(disk), room_(room), segment_bytes_(segment_bytes) {}

  // Finds the segments that are there. Blocks; once, before everything else.
  Result<> open();
  // Marks what a row names. Errors: corrupt - another row names a part of it, too.
  // A span that no segment covers is accepted: its bytes are lost, reading it will say so.
  Result<> take(const ExtentSpan& span);
  std::uint64_t lost_spans() const;

  // nullopt: no room in the segments there are.
  std::optional<ExtentSpan> allocate(std::uint64_t length);
  // The same; makes a segment if it must. Blocks. Errors: full - the disk has no room for a
  // segment; io - making it failed, which is final for the volume.
  Result<ExtentSpan> allocate_growing(std::uint64_t length);
  void release(const ExtentSpan& span);

  // The open segment; it stays open. Blocks at its first use. Errors: not_found; io.
  Result<std::shared_ptr<FragmentFile>> file(std::uint32_t number);
  // The same. Pre: file() has succeeded for it.
  std::shared_ptr<FragmentFile> opened(std::uint32_t number) const;

  std::uint64_t segment_bytes() const { return segment_bytes_; }
  std::uint64_t free_bytes() const;
  std::size_t count() const;

 private:
  Result<> grow();
  static std::string name_of(std::uint32_t number);

  Disk& disk_;
  FragmentRoom& room_;
  const std::uint64_t segment_bytes_;
  std::mutex growing_mutex_;  // held while a segment is made, during its I/O, too
  mutable std::mutex mutex_;  // guards what follows; never held during I/O
  FreeSpace free_;
  std::map<std::uint32_t, std::shared_ptr<FragmentFile>> open_;
  std::uint32_t next_number_ = 1;
  std::uint64_t lost_spans_ = 0;
};

}  // namespace penstock
