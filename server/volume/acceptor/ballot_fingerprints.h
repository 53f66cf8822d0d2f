// Which ballots the rows of one volume are known to have, bounded by bytes: of a read's majority
// one replica gives the record, the others say only whether they hold its ballot (R6). Eight bytes a
// row tell that of as many keys as a volume has; a row in memory takes sixty times as much.
//
// An entry is 20 bits of the key's hash and 44 bits of a hash of key and ballot, in a line of
// eight, as in a cuckoo filter (Fan, 2014). So it says "this key is at this ballot"; of what is not
// here nothing is known. No two updates have one ballot (R2), whichever their keys: so keys that
// share a hash are never taken for one another. It is wrong if two ballots of one key share 44
// bits, once in 10^13 reads that meet a replica with an old row. Absent rows are not here: all
// have one ballot.
// Lines double until there is no room; from then on what comes takes the place of another of its
// line. Thread-safety: none; who holds one locks.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/types.h"

namespace penstock {

class BallotFingerprints {
 public:
  explicit BallotFingerprints(std::size_t bytes_max);
  // `hash`, here and below: the key's.
  bool holds(std::size_t hash, const Ballot& ballot) const;
  // Pre: the row of the key is at this ballot, and none other of it is here. Nothing of a zero one.
  void put(std::size_t hash, const Ballot& ballot);
  // All of this key, and what shares 20 bits with it.
  void erase(std::size_t hash);
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return lines_.size() * sizeof(Line); }

 private:
  using Entry = std::uint64_t;                        // zero: none
  struct alignas(64) Line : std::array<Entry, 8> {};  // of a processor's cache
  static Entry entry_of(std::size_t hash, const Ballot& ballot);
  Line& line_of(Entry entry);
  const Line& line_of(Entry entry) const;
  void insert(Entry entry);
  void grow();

  const std::size_t lines_max_;
  std::size_t size_ = 0;
  std::vector<Line> lines_;  // by the 20 bits
};

}  // namespace penstock
