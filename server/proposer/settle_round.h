// Identity and complete rounds: the highest value found is accepted again at a new ballot, so that
// a majority holds it at one. It keeps op-id, chain, origin and revision. Thread-safety: any I/O
// thread.
#pragma once
#include <cstdint>
#include <memory>

#include "server/proposer/register_round.h"

namespace penstock {

enum class Settling : std::uint8_t {
  if_needed,  // a value that a majority holds already is left as it is
  identity,   // it is accepted again in any case; an absent key stays absent
  complete,   // the same, and a tombstone is written if the key is absent
};
// Errors: unavailable - no quorum; overloaded; stale_bucket; corrupt.
Task<Snapshot> settle_round(ProposerContext& context, RegisterTask task, Settling how);

// Makes `promises.highest` chosen at the round's ballot; a tombstone if it is absent.
// Errors: those of highest_again(). An end other than `majority`: prepare again.
struct Settled {
  AcceptEnd end;
  Snapshot snapshot;
};
Task<Settled> accept_highest(ProposerContext& context, const RegisterTask& task,
                             const Promises& promises, std::shared_ptr<const RegisterValue> value,
                             BallotSource& ballots);

// How often a round without a quorum is tried, and any round at all: a bound beside the deadline.
inline constexpr unsigned kWithoutQuorumMax = 3;
inline constexpr unsigned kRoundsMax = 200;

}  // namespace penstock
