// The promises of one acceptor (R4: in memory only; the synced ceiling covers them). Bounded: a
// promise that makes room is folded into the maximum of its slot, which all keys of the slot then
// obey. Keys are known by a 64-bit hash. Both only ever refuse too much, which is safe.
// Thread-safety: none; the register store locks.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "penstock/types.h"

namespace penstock {

class PromiseTable {
 public:
  static constexpr std::size_t kSlots = 1024;
  explicit PromiseTable(std::size_t slots = kSlots);
  // The highest ballot promised for this key, zero if none.
  Ballot get(std::uint64_t key_hash) const;
  // Pre: ballot >= get(key_hash).
  void put(std::uint64_t key_hash, Ballot ballot);
  // Forgets a promise that an accept at `ballot` covers.
  void settle(std::uint64_t key_hash, Ballot ballot);

 private:
  static constexpr std::size_t kPromisesPerSlot = 8;
  struct Promise {
    std::uint64_t key_hash = 0;
    Ballot ballot;
  };
  struct Slot {
    std::vector<Promise> promises;
    Ballot folded;
  };
  std::vector<Slot> slots_;
};

}  // namespace penstock
