// The arrows of the upload register (server/proposer/README.md), one conditional update each:
//
//   open -> completing(a)                 begin_completing()  a Complete has checked its parts
//   open -> aborted                       abort_open()
//   completing(a), reopening(a) -> done   finish_done()       a is in the object, settled
//   completing(a) -> reopening(a)         begin_reopening()   a condition failed on a settled value
//   reopening(a) -> open                  finish_reopening()  a complete write-back did not find a
//
// Each answers true if the register now stands where the arrow points, by this call or an earlier
// one; false if it stands elsewhere: read it again. Repeating an arrow is harmless.
// Errors of all: unavailable; unknown_outcome; timeout; stale_bucket; corrupt.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "server/blobs/leases.h"
#include "server/proposer/proposer.h"
#include "server/records/object_record.h"

namespace penstock {

// `completing` holds attempt, target, conditions, object_seen and manifest digest. `seen`: the
// ballot of the upload's row before its parts were listed; if the row has another by the time of
// the promise, the register counts as standing elsewhere. So a write-back of an open upload
// makes every Complete under way list its parts again: the places that it knows may be a replaced
// volume's, and nobody looks behind an open upload for what its Complete will name.
Task<bool> begin_completing(Proposer& proposer, RegisterRef upload, UploadRecord completing,
                            LeaseKeeper* leases, Deadline deadline,
                            std::optional<Ballot> seen = std::nullopt);
// `freed`: hints for all parts.
Task<bool> abort_open(Proposer& proposer, RegisterRef upload, std::vector<Hint> freed,
                      Deadline deadline);
// `freed`: hints for parts that the object does not name.
Task<bool> finish_done(Proposer& proposer, RegisterRef upload, OpId attempt,
                       std::vector<Hint> freed, Deadline deadline);
Task<bool> begin_reopening(Proposer& proposer, RegisterRef upload, OpId attempt, Deadline deadline);
// Frees the manifest pages of the attempt, due at `due`.
Task<bool> finish_reopening(Proposer& proposer, RegisterRef upload, OpId attempt, WallTime due,
                            Deadline deadline);

// A hint for one blob. `upload_id`: non-empty if the blob belonged to an upload.
Hint hint_for(const BlobRef& blob, WallTime due, std::string upload_id);

}  // namespace penstock
