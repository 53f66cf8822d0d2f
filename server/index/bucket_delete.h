// Deleting a bucket so that no object is lost and none is half written into it: "Buckets" in
// server/proposer/README.md.
//
//   (0) an ordinary list; not empty -> precondition, nothing changed
//   (1) open(n) -> deleting(n + 1): from here on its reads and writes wait
//   (2) a list of the whole bucket whose scans carry the fence n + 1, answered by a majority of
//       fenced volumes in each group; keys on which they differ are settled by write-backs
//   (3) empty -> tombstone, done; else -> open(n + 2), precondition
//
// A crash after (1) leaves the bucket deleting; anyone may go on from (2), at the same time as
// another if need be: both see the same fenced bucket.
#pragma once
#include <string>

#include "server/index/bucket_catalog.h"
#include "server/index/row_walk.h"

namespace penstock {

// Errors: not_found; precondition - not empty; unavailable; unknown_outcome; timeout.
Task<> delete_bucket(ListContext context, BucketCatalog& catalog, std::string name,
                     Deadline deadline);

// Goes on from (2) for a bucket that stands in `deleting`; it is open or gone afterwards. Nothing
// to do for any other. Errors: unavailable; unknown_outcome; timeout.
Task<> roll_bucket_forward(ListContext context, BucketCatalog& catalog, std::string name,
                           Deadline deadline);

}  // namespace penstock
