// Which granules of which segments are free: a bitmap per segment. Pure bookkeeping; what is
// durable are the extent rows, from which it is rebuilt at each start.
//
// Next fit: allocations follow each other in one segment until it is full, so that those who write
// at the same time share one file and one sync. Thread-safety: none; SegmentSet locks.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace penstock {

struct ExtentSpan {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;  // offset and length in bytes, multiples of 4 KiB
  std::uint64_t length = 0;
};

class FreeSpace {
 public:
  // `bytes` free bytes, rounded down to granules. Pre: the number is new.
  void add_segment(std::uint32_t number, std::uint64_t bytes);
  // Marks a span that a row names. `outside`: the segment is unknown or shorter.
  enum class Taken : std::uint8_t { yes, outside, overlap };
  Taken take(const ExtentSpan& span);
  // nullopt: no segment has so long a run. Pre: length > 0.
  // Cost: a word per 256 KiB of a segment that may have room; a comparison per other segment.
  std::optional<ExtentSpan> allocate(std::uint64_t length);
  // Pre: allocated or taken, once. A span in an unknown segment is ignored: its file is lost.
  void release(const ExtentSpan& span);

  std::uint64_t free_bytes() const { return free_granules_ * 4096; }
  std::size_t segment_count() const { return segments_.size(); }

 private:
  struct Segment {
    std::uint32_t number = 0;
    std::uint64_t granules = 0;
    std::uint64_t free = 0;
    std::uint64_t run_max = 0;  // no free run is longer; exact only after a search that failed
    std::uint64_t cursor = 0;   // where the last allocation ended
    std::vector<std::uint64_t> used;  // a bit per granule
  };
  static std::uint64_t count_free(const Segment& segment);
  static std::optional<std::uint64_t> find_run(Segment& segment, std::uint64_t granules);

  std::vector<Segment> segments_;
  std::map<std::uint32_t, std::size_t> index_of_;  // by number
  std::size_t current_ = 0;
  std::uint64_t free_granules_ = 0;
};

}  // namespace penstock
