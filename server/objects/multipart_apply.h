// Drives a completing upload to its end. The Complete that began it, another Complete, an Abort and
// the sweeper all call the same functions, side by side if need be. The registers hold all that
// they need to know.
//
//   completing(a) --apply()--> the object, with op-id a --> done
//        `-- a condition failed --> reopening(a) --give_up()--> open, or done if a was applied
//
// A crash anywhere leaves the upload in one of these states; the next caller goes on.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/memory_budget.h"
#include "penstock/turns.h"
#include "server/index/index.h"
#include "server/objects/object_updates.h"

namespace penstock {

// One upload of one bucket.
struct UploadName {
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  std::string upload_id;
  MemoryAccount account{};  // of whoever asks: what is read of the upload takes its memory
  RegisterRef object() const { return Index::object(*bucket, key); }
  RegisterRef upload() const { return Index::upload(*bucket, key, upload_id); }
};

// Ownership: borrows all.
struct ApplyContext {
  Index& index;
  Proposer& proposer;
  Clock& clock;
  Duration hint_delay = limits::kHintDelay;  // from an update to the due time of its hints
  // For a sweeper: applies the target only onto the object that the Complete saw. A Complete whose
  // client has given up must not come over newer writes.
  bool only_onto_seen = false;
  // For who reads all parts of an upload. Null: that counts nowhere, and waits for no turn.
  MemoryBudget* memory = nullptr;
  Turns* turns = nullptr;
  WallTime hints_due() const { return clock.wall() + hint_delay; }
};

inline constexpr std::size_t kPartMemory = 512;  // of a PartInfo with what it names, about
// Of one part of an upload in the answers of all replicas, which are there until they are merged;
// about.
std::size_t part_answers_bytes(std::string_view key, std::string_view upload_id);

// All parts of an upload, with the memory that they take while they are looked at.
struct StoredParts {
  std::vector<PartInfo> parts;
  std::vector<MemoryBudget::Lease> memory;
};
// Waits for its turn and for memory. Errors: as Index::list_parts(); overloaded - neither came.
Task<StoredParts> read_parts(ApplyContext context, UploadName name, Deadline deadline);

// How an attempt ended.
struct AttemptEnd {
  enum class How : std::uint8_t {
    applied,   // the object was written, the upload is done
    given_up,  // a condition failed, the upload is open again; `why` is the condition's error
    moved,     // someone else moved the upload: read it again
  };
  How how = How::moved;
  Error why;
};

// May the same step succeed if it is tried again?
bool is_passing(const Error& error);

// Makes the target of `attempt` the object: the one visible step of a Complete. Starts again after
// every failure whose outcome is unknown, until the deadline. `left_over`: blobs of parts that the
// target does not name, if the caller knows them; null: they are looked up.
// Errors: unavailable; unknown_outcome; timeout; stale_bucket; corrupt.
Task<AttemptEnd> apply_attempt(ApplyContext context, UploadName name, OpId attempt,
                               std::shared_ptr<const std::vector<BlobRef>> left_over,
                               Deadline deadline);

// Ends a reopening: a complete write-back on the object tells whether the attempt was applied after
// all. Errors: as apply_attempt().
Task<AttemptEnd> give_up_attempt(ApplyContext context, UploadName name, OpId attempt,
                                 Deadline deadline);

}  // namespace penstock
