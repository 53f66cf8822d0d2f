// Multipart uploads as registers: create, parts, complete, abort.
// Thread-safety: all methods from any I/O thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "server/blobs/blobs.h"
#include "server/objects/multipart_apply.h"
#include "server/objects/multipart_complete.h"

namespace penstock {

// A `const Bucket&` must live until the call has ended. Upload ids: 32 characters of a-z 2-7.
class Multipart {
 public:
  // `hint_delay`: how long readers may still use what is freed. `memory`: what the parts take that
  // Completes and Aborts read; null: they count nowhere. Ownership: borrows all.
  Multipart(Index& index, Proposer& proposer, Blobs& blobs, Random& random, Clock& clock,
            Duration hint_delay = limits::kHintDelay, MemoryBudget* memory = nullptr)
      : context_{index, proposer, clock, hint_delay, false, memory, &part_reads_},
        blobs_(blobs),
        random_(random) {}

  // Answers the upload-id: 160 random bits, which clients put into queries without escaping.
  Task<std::string> create(const Bucket& bucket, std::string key, UploadRecord record,
                           Deadline deadline);
  // An upload that is open. Errors: upload_not_open - absent, aborted, done or being completed.
  Task<UploadRecord> open(const Bucket& bucket, std::string key, std::string upload_id,
                          Deadline deadline);
  // The last accepted wins. The blob that it replaces stays until the upload has ended. `leases`:
  // of the part's blob, looked at after each promise; may be null. Errors: upload_not_open; else as
  // Objects::put().
  Task<> put_part(const Bucket& bucket, std::string key, std::string upload_id, PartInfo part,
                  Deadline deadline, LeaseKeeper* leases = nullptr);

  struct Answer {
    PartFault fault = PartFault::none;
    std::uint16_t fault_part = 0;
    std::uint64_t fault_bytes = 0;  // PartFault::too_small: the size of that part
    ObjectRecord record;            // etag, checksums, size
  };
  // Idempotent: the same request again after success gives the same answer for 24 h. Errors:
  // upload_not_open; precondition; not_found - If-Match on an absent key; unavailable;
  // unknown_outcome; overloaded - no turn, or no memory of `account`, for the list of parts, or a
  // volume has too much to do.
  Task<Answer> complete(const Bucket& bucket, std::string key, std::string upload_id,
                        CompleteRequest request, Deadline deadline, MemoryAccount account = {});
  // Errors: upload_not_open; unknown_outcome; overloaded, as above.
  Task<> abort(const Bucket& bucket, std::string key, std::string upload_id, Deadline deadline,
               MemoryAccount account = {});

 private:
  Task<UploadRecord> open_named(UploadName name, Deadline deadline);
  // One look at the upload and one step from there; nullopt: look again.
  Task<std::optional<Answer>> complete_step(UploadName name, const CompleteRequest& request,
                                            const std::string& digest, Deadline deadline);
  // `seen`: the ballot of the upload's row, see begin_completing().
  Task<std::optional<Answer>> complete_open(UploadName name, UploadRecord upload, Ballot seen,
                                            const CompleteRequest& request,
                                            const std::string& digest, Deadline deadline);
  Task<std::optional<Answer>> join_attempt(UploadName name, UploadRecord upload,
                                           const std::string& digest, Deadline deadline);
  Task<bool> abort_step(UploadName name, Deadline deadline);
  Task<> back_off(Duration& backoff, Deadline deadline);

  // Uploads whose parts are read at a time: each holds a page of all replicas beside its parts.
  static constexpr std::size_t kPartReadsAtOnce = 8;

  Turns part_reads_{kPartReadsAtOnce};
  ApplyContext context_;
  Blobs& blobs_;
  Random& random_;
};

}  // namespace penstock
