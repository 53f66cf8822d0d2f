#include "server/volume/fragments/free_space.h"

#include <algorithm>
#include <bit>

#include "penstock/assert.h"
#include "server/volume/fragments/fragment_format.h"

namespace penstock {
namespace {

constexpr std::uint64_t kBits = 64;

std::uint64_t mask_of_bits(std::uint64_t from, std::uint64_t to) {  // bits [from, to) of one word
  const std::uint64_t upper = to == kBits ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
  return upper & ~((std::uint64_t{1} << from) - 1);
}

// Calls `f(word index, mask)` for each word that granules [from, to) touch.
template <class Function>
void for_words(std::uint64_t from, std::uint64_t to, Function f) {
  while (from < to) {
    const std::uint64_t word = from / kBits;
    const std::uint64_t end = std::min(to, (word + 1) * kBits);
    f(static_cast<std::size_t>(word), mask_of_bits(from - word * kBits, end - word * kBits));
    from = end;
  }
}

// The first granule in [from, to) that is used (or free), or `to`.
std::uint64_t find_bit(const std::vector<std::uint64_t>& words, std::uint64_t from,
                       std::uint64_t to, bool used) {
  while (from < to) {
    const std::uint64_t word = words[static_cast<std::size_t>(from / kBits)];
    const std::uint64_t left = (used ? word : ~word) >> (from % kBits);
    if (left != 0) {
      return std::min(to, from + static_cast<std::uint64_t>(std::countr_zero(left)));
    }
    from = (from / kBits + 1) * kBits;
  }
  return to;
}

// The first run of `granules` free ones in [from, to); `longest` grows to the longest run passed.
std::optional<std::uint64_t> first_run(const std::vector<std::uint64_t>& words, std::uint64_t from,
                                       std::uint64_t to, std::uint64_t granules,
                                       std::uint64_t& longest) {
  while (from < to) {
    const std::uint64_t start = find_bit(words, from, to, false);
    if (start == to) break;
    const std::uint64_t end = find_bit(words, start, to, true);
    if (end - start >= granules) return start;
    longest = std::max(longest, end - start);
    from = end;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t FreeSpace::count_free(const Segment& segment) {
  std::uint64_t used = 0;
  for (const std::uint64_t word : segment.used) {
    used += static_cast<std::uint64_t>(std::popcount(word));
  }
  return segment.granules - used;
}

void FreeSpace::add_segment(std::uint32_t number, std::uint64_t bytes) {
  const std::uint64_t granules = bytes / kGranuleBytes;
  Segment segment;
  segment.number = number;
  segment.granules = segment.free = segment.run_max = granules;
  segment.used.resize(static_cast<std::size_t>((granules + kBits - 1) / kBits));
  const bool is_new = index_of_.emplace(number, segments_.size()).second;
  PENSTOCK_ASSERT(is_new);
  segments_.push_back(std::move(segment));
  free_granules_ += granules;
}

FreeSpace::Taken FreeSpace::take(const ExtentSpan& span) {
  const auto found = index_of_.find(span.segment);
  if (found == index_of_.end()) return Taken::outside;
  Segment& segment = segments_[found->second];
  const std::uint64_t from = span.offset / kGranuleBytes;
  const std::uint64_t to = from + span.length / kGranuleBytes;
  if (to > segment.granules) return Taken::outside;
  bool overlap = false;
  for_words(from, to, [&](std::size_t word, std::uint64_t bits) {
    overlap = overlap || (segment.used[word] & bits) != 0;
    segment.used[word] |= bits;
  });
  if (overlap) return Taken::overlap;
  PENSTOCK_ASSERT(segment.free >= to - from && free_granules_ >= to - from);
  segment.free -= to - from;
  segment.run_max = std::min(segment.run_max, segment.free);
  free_granules_ -= to - from;
  PENSTOCK_ASSERT_DEAR(count_free(segment) == segment.free);
  return Taken::yes;
}

std::optional<std::uint64_t> FreeSpace::find_run(Segment& segment, std::uint64_t granules) {
  std::uint64_t longest = 0;
  if (auto run = first_run(segment.used, segment.cursor, segment.granules, granules, longest)) {
    return run;
  }
  longest = 0;
  auto run = first_run(segment.used, 0, segment.granules, granules, longest);
  if (!run) segment.run_max = longest;
  return run;
}

std::optional<ExtentSpan> FreeSpace::allocate(std::uint64_t length) {
  PENSTOCK_ASSERT(length > 0 && length % kGranuleBytes == 0);
  const std::uint64_t granules = length / kGranuleBytes;
  for (std::size_t step = 0; step < segments_.size(); ++step) {
    const std::size_t index = (current_ + step) % segments_.size();
    Segment& segment = segments_[index];
    if (segment.run_max < granules) continue;
    const auto start = find_run(segment, granules);
    if (!start) continue;
    PENSTOCK_ASSERT(*start + granules <= segment.granules && segment.free >= granules);
    for_words(*start, *start + granules, [&](std::size_t word, std::uint64_t bits) {
      PENSTOCK_ASSERT((segment.used[word] & bits) == 0);
      segment.used[word] |= bits;
    });
    PENSTOCK_ASSERT_DEAR(count_free(segment) + granules == segment.free);
    segment.free -= granules;
    segment.run_max = std::min(segment.run_max, segment.free);
    segment.cursor = *start + granules;
    free_granules_ -= granules;
    current_ = index;
    return ExtentSpan{segment.number, *start * kGranuleBytes, length};
  }
  return std::nullopt;
}

void FreeSpace::release(const ExtentSpan& span) {
  const auto found = index_of_.find(span.segment);
  if (found == index_of_.end()) return;
  Segment& segment = segments_[found->second];
  const std::uint64_t from = span.offset / kGranuleBytes;
  const std::uint64_t to = from + span.length / kGranuleBytes;
  if (to > segment.granules) return;  // the file was cut short: this part of it is lost
  PENSTOCK_ASSERT(span.offset % kGranuleBytes == 0 && from < to);
  for_words(from, to, [&](std::size_t word, std::uint64_t bits) {
    PENSTOCK_ASSERT((segment.used[word] & bits) == bits);
    segment.used[word] &= ~bits;
  });
  segment.free += to - from;
  PENSTOCK_ASSERT(segment.free <= segment.granules);
  segment.run_max = segment.free;  // the runs may have merged; the next failed search says exactly
  free_granules_ += to - from;
}

}  // namespace penstock
