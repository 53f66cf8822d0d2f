// Write-back: the highest value found is accepted again at a new ballot, so that a majority holds
// it at one. It keeps op-id, chain, origin and revision. Thread-safety: any I/O thread.
#pragma once
#include <cstdint>
#include <memory>

#include "server/proposer/register_round.h"

namespace penstock {

// Errors: unavailable - no quorum; overloaded; stale_bucket; corrupt.
Task<Snapshot> write_back_round(ProposerContext& context, RegisterTask task, WriteBack how);

// Makes `promises.highest` chosen at the round's ballot; a tombstone if it is absent.
// Errors: those of highest_again(). An end other than `majority`: prepare again.
struct WrittenBack {
  AcceptEnd end;
  Snapshot snapshot;
};
Task<WrittenBack> accept_highest(ProposerContext& context, const RegisterTask& task,
                                 const Promises& promises,
                                 std::shared_ptr<const RegisterValue> value, BallotSource& ballots);

// How often a round without a quorum is tried, and any round at all: a bound beside the deadline.
inline constexpr unsigned kWithoutQuorumMax = 3;
inline constexpr unsigned kRoundsMax = 200;

}  // namespace penstock
