// The one-round read (R6): a majority is asked, the record from one and ballots from the rest; the
// other replicas when those disagree, fail or are late. A majority at one ballot is the answer;
// else the highest value is sent again at its own ballot to those that lack it; if that is refused
// a write-back decides.
// Thread-safety: any I/O thread.
#pragma once
#include <optional>

#include "server/proposer/register_round.h"

namespace penstock {

// Errors: unavailable - no quorum; overloaded; stale_bucket.
Task<Snapshot> read_round(ProposerContext& context, RegisterTask task, ReadWant want);

// The same from memory; nullopt: not now. No coroutine.
std::optional<Snapshot> read_at_once(ProposerContext& context, const RegisterRef& ref,
                                     ReadWant want);

// True: every replica has answered in the group's epoch, a majority holds the row of this ballot,
// and none holds a higher one. False: one may, and a later round would settle it.
// Errors: of the map.
Task<bool> uncontested_round(ProposerContext& context, RegisterTask task, Ballot ballot);

}  // namespace penstock
