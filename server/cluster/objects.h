// Updates of objects and uploads as the protocol wants them (metadata "Flows", "Multipart"): conditions on a settled value, hints
// for what is freed, uploads moved to `done` before their object is replaced, Apply as the one visible step of a Complete.
// S3 operations call these; HTTP is not known here. Thread-safety: all methods from any I/O thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "server/cluster/blob_reader.h"
#include "server/cluster/blob_writer.h"
#include "server/cluster/index.h"

namespace penstock {

// If-Match / If-None-Match of a write. Functions of the value alone.
struct Condition {
  std::string if_match;       // ETag without quotes, or "*"; empty = none
  std::string if_none_match;  // ETag without quotes, or "*"; empty = none
  bool empty() const { return if_match.empty() && if_none_match.empty(); }
  // Errors: precondition; not_found - If-Match on an absent key (404).
  Result<> check(const Snapshot& current) const;
};

struct ObjectRead {
  ObjectRecord record;
  SharedBytes inline_bytes;
  OpId op_id;
};

class Objects {
 public:
  Objects(Index& index, Proposer& proposer, BlobContext& blobs, Random& random, Clock& clock);
  ~Objects();
  Index& index();
  BlobContext& blobs();

  // Errors: not_found - absent or deleted.
  Task<ObjectRead> get(const Bucket& bucket, std::string key, bool with_inline, Deadline deadline);
  // The same from memory when a majority of replicas can answer at once; nullopt: ask with get().
  std::optional<Result<ObjectRead>> get_now(const Bucket& bucket, const std::string& key, bool with_inline);
  // Fast check before 100-continue: at most limits::kFastCondition, success when it cannot tell in time.
  Task<> fast_check(const Bucket& bucket, std::string key, Condition condition);

  // Makes `record` the object. Its blobs are durable; Last-Modified becomes max(previous + 0, record.modified). Returns what was
  // stored. Errors: precondition, not_found (conditions); unavailable; unknown_outcome; stale_bucket; full.
  Task<ObjectRecord> put(const Bucket& bucket, std::string key, ObjectRecord record, SharedBytes inline_bytes, Condition condition,
                         Deadline deadline);
  // New metadata for the object that `expected` names (copy onto itself); keeps its blobs. Errors: precondition - it changed.
  Task<ObjectRecord> replace_metadata(const Bucket& bucket, std::string key, OpId expected, ObjectRecord record, Deadline deadline);
  // Deletes; succeeds when absent (unless a condition is given).
  Task<> remove(const Bucket& bucket, std::string key, Condition condition, Deadline deadline);

  // ---- multipart. Upload ids: 32 characters of a-z 2-7.
  Task<std::string> create_upload(const Bucket& bucket, std::string key, UploadRecord record, Deadline deadline);
  // An upload that is open. Errors: not_found - absent, aborted, done or being completed.
  Task<UploadRecord> open_upload(const Bucket& bucket, std::string key, std::string upload_id, Deadline deadline);
  Task<> put_part(const Bucket& bucket, std::string key, std::string upload_id, PartInfo part, Deadline deadline);
  struct CompletePart {
    std::uint16_t number = 0;
    std::string etag;              // without quotes
    StoredChecksum checksum;       // algorithm none = not given
  };
  struct CompleteRequest {
    std::vector<CompletePart> parts;
    Condition condition;
    std::optional<std::uint64_t> object_size;  // x-amz-mp-object-size
    StoredChecksum checksum;                   // of the whole, if given
    std::optional<ChecksumType> checksum_type;
  };
  // What went wrong with the list of parts; the operation turns it into InvalidPart, InvalidPartOrder, EntityTooSmall, BadDigest.
  enum class PartFault : std::uint8_t { none, missing, order, too_small, checksum, size, type };
  struct Completed {
    PartFault fault = PartFault::none;
    std::uint16_t fault_part = 0;
    ObjectRecord record;           // etag, checksums, size
  };
  // Idempotent: the same list again after success gives the same answer for 24 h. Errors: not_found - no such upload;
  // precondition; unavailable; unknown_outcome.
  Task<Completed> complete(const Bucket& bucket, std::string key, std::string upload_id, CompleteRequest request, Deadline deadline);
  // Errors: not_found.
  Task<> abort_upload(const Bucket& bucket, std::string key, std::string upload_id, Deadline deadline);

  // Parts of an object in order, from the record or its manifest (pages are cached by write-id).
  Task<std::vector<PartInfo>> parts(const ObjectRecord& record, Deadline deadline);
  // The blob ranges that make up [offset, offset + length) of an object that is not inline.
  Task<std::vector<BlobRange>> ranges(const ObjectRecord& record, std::uint64_t offset, std::uint64_t length, Deadline deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
