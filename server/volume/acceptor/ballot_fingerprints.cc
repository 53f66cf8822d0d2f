#include "server/volume/acceptor/ballot_fingerprints.h"

#include <xxhash.h>

#include <algorithm>
#include <new>
#include <type_traits>

namespace penstock {
namespace {

constexpr unsigned kTagBits = 20;
constexpr unsigned kPrintBits = 64 - kTagBits;
static_assert(kPrintBits >= 44);     // as the header promises
constexpr std::size_t kFillMax = 5;  // of the eight places of a line, on average

std::uint64_t tag_of(std::size_t hash) { return hash & ((1u << kTagBits) - 1); }
std::uint64_t tag_in(std::uint64_t entry) { return entry >> kPrintBits; }

}  // namespace

BallotFingerprints::BallotFingerprints(std::size_t bytes_max, std::uint64_t seed)
    : lines_max_(std::min(bytes_max / sizeof(Line), std::size_t{1} << kTagBits)), seed_(seed) {}

BallotFingerprints::Entry BallotFingerprints::entry_of(std::size_t hash,
                                                       const Ballot& ballot) const {
  static_assert(std::has_unique_object_representations_v<Ballot>);
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kPrintBits) - 1;
  const std::uint64_t print = XXH3_64bits_withSeed(&ballot, sizeof ballot, hash ^ seed_) & kMask;
  return tag_of(hash) << kPrintBits | std::max<std::uint64_t>(print, 1);
}

std::size_t BallotFingerprints::line_of(Entry entry) const {
  return (tag_in(entry) * lines_.size()) >> kTagBits;
}

bool BallotFingerprints::has(Entry entry) const {
  if (lines_.empty()) return false;
  const Line& line = lines_[line_of(entry)];
  return std::find(line.begin(), line.end(), entry) != line.end();
}

bool BallotFingerprints::holds(std::size_t hash, const Ballot& ballot) const {
  return !ballot.is_zero() && has(entry_of(hash, ballot));
}

void BallotFingerprints::put(std::size_t hash, const Ballot& ballot) {
  if (lines_max_ == 0 || ballot.is_zero()) return;
  const Entry entry = entry_of(hash, ballot);
  if (has(entry)) return;
  if (size_ >= kFillMax * lines_.size() && lines_.size() < lines_max_) grow();
  if (!lines_.empty()) insert(entry);
}

void BallotFingerprints::insert(Entry entry) {
  Line& line = lines_[line_of(entry)];
  const auto free = std::find(line.begin(), line.end(), Entry{0});
  if (free != line.end()) {
    *free = entry;
    ++size_;
  } else {
    line[entry % line.size()] = entry;  // a place at random
  }
}

// Without memory for it all stays as it is.
void BallotFingerprints::grow() noexcept {
  std::vector<Line> before;
  try {
    before.resize(std::min(std::max<std::size_t>(2 * lines_.size(), 1), lines_max_));
  } catch (const std::bad_alloc&) {
    return;
  }
  before.swap(lines_);
  size_ = 0;
  for (const Line& line : before) {
    for (const Entry entry : line) {
      if (entry != 0) insert(entry);
    }
  }
}

void BallotFingerprints::erase(std::size_t hash) {
  if (lines_.empty()) return;
  const std::uint64_t tag = tag_of(hash);
  for (Entry& entry : lines_[line_of(tag << kPrintBits)]) {
    if (entry == 0 || tag_in(entry) != tag) continue;
    entry = 0;
    --size_;
  }
}

}  // namespace penstock
