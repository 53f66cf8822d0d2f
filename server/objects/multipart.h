// Multipart uploads as registers: create, parts, complete, abort.
// Thread-safety: all methods from any I/O thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "server/blobs/blob_writer.h"
#include "server/objects/multipart_apply.h"
#include "server/objects/multipart_complete.h"

namespace penstock {

class Multipart {
 public:
  // Ownership: borrows all.
  Multipart(ApplyContext context, BlobContext& blobs, Random& random)
      : context_(context), blobs_(blobs), random_(random) {}

  // Answers the upload-id: 160 random bits as 32 characters of a-z 2-7, which clients put into
  // queries without escaping. Pre: name.upload_id is empty.
  Task<std::string> create(UploadName name, UploadRecord record, Deadline deadline);
  // Errors: upload_not_open.
  Task<UploadRecord> open(UploadName name, Deadline deadline);
  // Errors: upload_not_open.
  Task<> put_part(UploadName name, PartInfo part, LeaseKeeper* leases, Deadline deadline);

  struct Answer {
    PartFault fault = PartFault::none;
    std::uint16_t fault_part = 0;
    std::uint64_t fault_bytes = 0;
    ObjectRecord record;
  };
  // Errors: upload_not_open; precondition; not_found - If-Match on an absent key; unavailable;
  // unknown_outcome.
  Task<Answer> complete(UploadName name, CompleteRequest request, Deadline deadline);
  // Errors: upload_not_open.
  Task<> abort(UploadName name, Deadline deadline);

 private:
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

  ApplyContext context_;
  BlobContext& blobs_;
  Random& random_;
};

}  // namespace penstock
