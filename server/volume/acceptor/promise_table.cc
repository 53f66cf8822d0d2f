#include "server/volume/acceptor/promise_table.h"

#include <algorithm>

#include "penstock/assert.h"
#include "penstock/planted.h"

namespace penstock {

PromiseTable::PromiseTable(std::size_t slots) : slots_(slots) { PENSTOCK_ASSERT(slots > 0); }

Ballot PromiseTable::get(std::uint64_t key_hash) const {
  const Slot& slot = slots_[key_hash % slots_.size()];
  Ballot highest = slot.folded;
  for (const Promise& promise : slot.promises) {
    if (promise.key_hash == key_hash) highest = std::max(highest, promise.ballot);
  }
  return highest;
}

void PromiseTable::put(std::uint64_t key_hash, Ballot ballot) {
  Slot& slot = slots_[key_hash % slots_.size()];
  const auto same = std::find_if(slot.promises.begin(), slot.promises.end(),
                                 [&](const Promise& p) { return p.key_hash == key_hash; });
  if (same != slot.promises.end()) {
    PENSTOCK_ASSERT(ballot >= same->ballot || !holds(Rule::promise));
    same->ballot = ballot;
    return;
  }
  if (slot.promises.size() == kPromisesPerSlot) {
    const auto lowest =
        std::min_element(slot.promises.begin(), slot.promises.end(),
                         [](const Promise& a, const Promise& b) { return a.ballot < b.ballot; });
    slot.folded = std::max(slot.folded, lowest->ballot);
    slot.promises.erase(lowest);
  }
  PENSTOCK_ASSERT(slot.promises.size() < kPromisesPerSlot);
  slot.promises.push_back({key_hash, ballot});
}

void PromiseTable::settle(std::uint64_t key_hash, Ballot ballot) {
  std::erase_if(slots_[key_hash % slots_.size()].promises, [&](const Promise& promise) {
    return promise.key_hash == key_hash && promise.ballot <= ballot;
  });
}

}  // namespace penstock
