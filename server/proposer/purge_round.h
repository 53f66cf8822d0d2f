// The two steps by which the row of a tombstone goes for good (R9).
//
//   mark  a complete write-back: the tombstone is accepted again; every replica acks it at one
//         ballot
//   drop  a while later, in the same epoch: whoever still holds the tombstone at that ballot raises
//         its horizon to it and removes the row, in one batch
//
// From the drop on a replica refuses all ballots up to the mark's, so that no straggler brings back
// what was deleted. Where a later write lives on instead, it is accepted once more, so that the
// replicas that missed it have it, too. A drop is sent until all have answered, and never becomes
// a round: a replica whose row has changed keeps it. A purge that was cut short leaves tombstones
// that can be marked again.
// Thread-safety: any I/O thread.
#pragma once
#include <optional>

#include "server/proposer/register_round.h"

namespace penstock {

// nullopt: the register is live, a replica did not ack, or the group is between two lists.
// Errors: unavailable - no quorum; corrupt.
Task<std::optional<TombstoneMark>> mark_round(ProposerContext& context, RegisterTask task);

// Errors: invalid, overloaded.
Task<DropEnd> drop_round(ProposerContext& context, RegisterTask task, TombstoneMark mark);

}  // namespace penstock
