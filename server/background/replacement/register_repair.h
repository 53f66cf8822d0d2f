// Brings what one register names onto volumes that are there to stay (R12):
// fragments on a volume that is being replaced, or that were never written, are made
// again on others; then one update of the register names the new places.
//
//   read (R6) → rebuild each slot under a new generation → prepare; go on only if write-id and
//   location of the slot are the ones read → accept: new location, revision + 1, the same op-id and
//   origin
//
// A lost race leaves the new fragment to the sweep (R11). The old place needs no removal hint: its
// volume leaves the map as a whole.
// Thread-safety: any I/O thread.
#pragma once
#include <cstdint>

#include "server/blobs/blobs.h"
#include "server/proposer/proposer.h"

namespace penstock {

// What is wrong with the fragments that one register names.
struct RegisterHealth {
  std::uint64_t misplaced = 0;  // fragments to be made again
  std::uint64_t bytes = 0;      // of them
  std::uint64_t missing = 0;    // fragments that were never written; misplaced if there is room now
  int spares = 0;               // of the blob that has the fewest, if any is misplaced
  bool waits = false;           // an upload that is being completed, or a part of one: look again
};

struct Repaired {
  std::uint64_t fragments = 0;
  std::uint64_t bytes = 0;
  std::uint64_t unplaced = 0;  // misplaced ones for which there is no volume, or too few columns
  Error why;                   // of the last of them
};

class RegisterRepair {
 public:
  // Ownership: borrows all.
  RegisterRepair(Proposer& proposer, Blobs& blobs, Clock& clock)
      : proposer_(proposer), blobs_(blobs), clock_(clock) {}

  // `touch`: an open upload's row gets a new ballot, so that no Complete which has listed its parts
  // before this goes on with what it listed (begin_completing()). A pass that looks at parts first,
  // then uploads, then objects, touches all open uploads and finds nothing misplaced is followed by
  // nothing that names other places. Also a row gets a new ballot that a replica may hold another
  // one beside: what was never chosen is settled here, where it is looked at, or never.
  // Errors: as Proposer::read(); corrupt, and as Blobs::read_whole() for manifest pages.
  Task<RegisterHealth> examine(RegisterRef ref, bool touch, Deadline deadline);
  // Makes all of it whole that can be; `deadline` is for the fragments. Errors: the same; as
  // Proposer::update().
  Task<Repaired> repair(RegisterRef ref, Deadline deadline);

 private:
  Task<Snapshot> touch(RegisterRef ref, Snapshot current, Deadline deadline);

  Proposer& proposer_;
  Blobs& blobs_;
  Clock& clock_;
};

}  // namespace penstock
