#include "server/volume/fragments/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "penstock/assert.h"
#include "server/volume/fragments/fragment_format.h"

namespace penstock {
namespace {

const std::string kSegmentsDirectory = "segments";

// A failed change of the disk is final, whatever the system called it.
Error final_segment_error(const Error& error) {
  if (error.code == Errc::overloaded) return error;  // the disk was not even asked
  return fail(Errc::io, error.context);
}

}  // namespace

std::string SegmentSet::name_of(std::uint32_t number) {
  return kSegmentsDirectory + "/" + fmt::format("{:08x}", number);
}

Result<> SegmentSet::open() {
  if (!disk_.exists(kSegmentsDirectory)) {
    CHECK_OK(disk_.make_directory(kSegmentsDirectory));
    CHECK_OK(disk_.sync_directory(""));
  }
  TRY(names, disk_.list(kSegmentsDirectory));
  std::sort(names.begin(), names.end());
  std::lock_guard lock(mutex_);  // nobody else is here yet
  for (const std::string& name : names) {
    std::uint32_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number, 16);
    if (name.size() != 8 || parsed.ptr != name.data() + name.size() || number == 0) continue;
    TRY(bytes, disk_.file_size(kSegmentsDirectory + "/" + name));
    // One that was being made when the power went may be short: what is there is used.
    free_.add_segment(number, bytes);
    next_number_ = std::max(next_number_, number + 1);
  }
  return {};
}

Result<> SegmentSet::take(const ExtentSpan& span) {
  std::lock_guard lock(mutex_);
  next_number_ = std::max(next_number_, span.segment + 1);
  switch (free_.take(span)) {
    case FreeSpace::Taken::yes:
      return {};
    case FreeSpace::Taken::outside:
      ++lost_spans_;
      return {};
    case FreeSpace::Taken::overlap:
      break;
  }
  return fail(Errc::corrupt,
              fmt::format("two rows name one extent: segment {:08x} offset {} length {}",
                          span.segment, span.offset, span.length));
}

std::uint64_t SegmentSet::lost_spans() const {
  std::lock_guard lock(mutex_);
  return lost_spans_;
}

std::optional<ExtentSpan> SegmentSet::allocate(std::uint64_t length) {
  std::lock_guard lock(mutex_);
  return free_.allocate(length);
}

Result<ExtentSpan> SegmentSet::allocate_growing(std::uint64_t length) {
  // Others may take the room of a new segment before this call does, but each of them has what it
  // wanted then: a few rounds are enough for those that can be here at one time.
  for (int round = 0; round < 16; ++round) {
    if (auto span = allocate(length)) return *span;
    // One makes a segment, the others wait and take of it: next to the end of the disk there is
    // room for one more, not for one each.
    const std::lock_guard growing(growing_mutex_);
    if (auto span = allocate(length)) return *span;
    CHECK_OK(grow());
  }
  return fail(Errc::overloaded, "too many writers want new segments");
}

Result<> SegmentSet::grow() {
  std::uint32_t number = 0;
  {
    std::lock_guard lock(mutex_);
    number = next_number_++;
  }
  const std::string name = name_of(number);
  return room_.grow(segment_bytes_, [&]() -> Result<> {
    auto file = disk_.open(name, OpenMode::write_new);
    if (!file) return final_segment_error(file.error());
    if (auto done = (*file)->allocate(0, segment_bytes_); !done) {
      if (done.error().code == Errc::overloaded) (void)disk_.remove(name);
      return final_segment_error(done.error());
    }
    if (auto done = (*file)->sync(); !done) return final_segment_error(done.error());
    if (auto done = disk_.sync_directory(kSegmentsDirectory); !done) {
      return final_segment_error(done.error());
    }
    // While the guard still counts the growth: in between the volume would look full.
    std::lock_guard lock(mutex_);
    free_.add_segment(number, segment_bytes_);
    return {};
  });
}

void SegmentSet::release(const ExtentSpan& span) {
  std::lock_guard lock(mutex_);
  free_.release(span);
}

Result<std::shared_ptr<FragmentFile>> SegmentSet::file(std::uint32_t number) {
  {
    std::lock_guard lock(mutex_);
    if (const auto found = open_.find(number); found != open_.end()) return found->second;
  }
  TRY(opened, disk_.open(name_of(number), OpenMode::direct));
  auto file = std::make_shared<FragmentFile>(std::move(opened));
  std::lock_guard lock(mutex_);
  return open_.emplace(number, std::move(file))
      .first->second;  // another thread may have been first
}

std::shared_ptr<FragmentFile> SegmentSet::opened(std::uint32_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(number);
  PENSTOCK_ASSERT(found != open_.end());
  return found->second;
}

std::uint64_t SegmentSet::free_bytes() const {
  std::lock_guard lock(mutex_);
  return free_.free_bytes();
}
std::size_t SegmentSet::count() const {
  std::lock_guard lock(mutex_);
  return free_.segment_count();
}

}  // namespace penstock
