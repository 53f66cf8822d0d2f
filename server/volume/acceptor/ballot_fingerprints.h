// Which ballots the rows of one volume are known to have, bounded by bytes: of a read's majority
// one replica gives the record, the others say only whether they hold its ballot (R6). Eight bytes
// a row tell that of as many keys as a volume has; a row in memory takes sixty times as much.
//
// An entry is 20 bits of the key's hash and 44 bits of a hash of key and ballot, in a line of
// eight, as in a cuckoo filter (Fan, 2014). So it says "this key is at this ballot"; of what is not
// here nothing is known. No two updates have one ballot (R2), whichever their keys: so keys that
// share a hash are never taken for one another. Of two ballots that a key has had, one in 10^13
// pairs shares its 44 bits with the other, and is taken for it. Each start of a volume has a seed
// of its own, by which it is another pair: so replicas are not wrong together, but by chance again.
// Absent rows are not here: all have one ballot.
//
// Lines double while there is room, when they are filled to five of eight; then what comes takes a
// place at random in its line. So of n rows 97 % are known while lines double, 85 % where there is
// room for just n entries. To double 512 KiB takes 0.2 ms.
// Thread-safety: none; who holds one locks.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/types.h"

namespace penstock {

class BallotFingerprints {
 public:
  BallotFingerprints(std::size_t bytes_max, std::uint64_t seed);
  // `hash`, here and below: the key's.
  bool holds(std::size_t hash, const Ballot& ballot) const;
  // Pre: the row of the key is at this ballot, and none other of it is here. Does nothing for a
  // zero one, or where there is no memory: nobody needs to know.
  void put(std::size_t hash, const Ballot& ballot);
  // All of this key, and what shares 20 bits with it.
  void erase(std::size_t hash);
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return lines_.size() * sizeof(Line); }

 private:
  using Entry = std::uint64_t;                        // zero: none
  struct alignas(64) Line : std::array<Entry, 8> {};  // of a processor's cache
  Entry entry_of(std::size_t hash, const Ballot& ballot) const;
  std::size_t line_of(Entry entry) const;  // its index in lines_
  bool has(Entry entry) const;
  void insert(Entry entry);
  void grow() noexcept;

  const std::size_t lines_max_;
  const std::uint64_t seed_;
  std::size_t size_ = 0;
  std::vector<Line> lines_;  // by the 20 bits
};

}  // namespace penstock
