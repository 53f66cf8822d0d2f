// Updates of objects and uploads: conditions on a settled value, hints for what is freed, uploads
// moved to `done` before their object is replaced, Apply as the one visible step of a Complete. S3
// operations call these; HTTP is not known here. Thread-safety: all methods from any I/O thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/blobs/blob_reader.h"
#include "server/blobs/blob_writer.h"
#include "server/blobs/leases.h"
#include "server/index/index.h"
#include "server/objects/condition.h"
#include "server/objects/multipart_complete.h"

namespace penstock {

struct ObjectRead {
  ObjectRecord record;
  SharedBytes inline_bytes;
  OpId op_id;
};

// The leases of one blob, kept by the writer that wrote it.
class WriterLease final : public LeaseKeeper {
 public:
  WriterLease(BlobWriter& writer, BlobRef blob) : writer_(writer), blob_(std::move(blob)) {}
  Task<std::vector<FragmentId>> ensure(Deadline deadline) override {
    return writer_.ensure_leases(blob_, deadline);
  }

 private:
  BlobWriter& writer_;
  BlobRef blob_;
};

// A `const Bucket&` must live until the call has ended.
class Objects {
 public:
  // `hint_delay`: how long readers may still use what an update frees.
  Objects(Index& index, Proposer& proposer, BlobContext& blobs, Random& random, Clock& clock,
          Duration hint_delay = limits::kHintDelay);
  ~Objects();
  Index& index();
  BlobContext& blobs();

  // Errors: not_found - absent or deleted.
  Task<ObjectRead> get(const Bucket& bucket, std::string key, bool with_inline, Deadline deadline);
  // The same from memory when a majority of replicas can answer at once; nullopt: ask with get().
  std::optional<Result<ObjectRead>> get_now(const Bucket& bucket, const std::string& key,
                                            bool with_inline);
  // Fast check before 100-continue: at most limits::kFastCondition, success when it cannot tell in
  // time. Errors: precondition; not_found.
  Task<> fast_check(const Bucket& bucket, std::string key, Condition condition);

  // Makes `record` the object. Its blobs are durable; Last-Modified becomes max(previous,
  // record.modified). `leases`: of its blobs, looked at after each promise; may be null for a
  // record without blobs. Returns what was stored.
  // Errors: precondition, not_found (conditions); unavailable; unknown_outcome; stale_bucket; full.
  Task<ObjectRecord> put(const Bucket& bucket, std::string key, ObjectRecord record,
                         SharedBytes inline_bytes, Condition condition, Deadline deadline,
                         LeaseKeeper* leases = nullptr);
  // New ETag, owner, checksums, headers and Last-Modified for the object that `expected` names
  // (copy onto itself); keeps its blobs. Errors: precondition - it changed.
  Task<ObjectRecord> replace_metadata(const Bucket& bucket, std::string key, OpId expected,
                                      ObjectRecord record, Deadline deadline);
  // Deletes; succeeds when absent (unless a condition is given).
  Task<> remove(const Bucket& bucket, std::string key, Condition condition, Deadline deadline);

  // ---- multipart. Upload ids: 32 characters of a-z 2-7.
  Task<std::string> create_upload(const Bucket& bucket, std::string key, UploadRecord record,
                                  Deadline deadline);
  // An upload that is open. Errors: upload_not_open - absent, aborted, done or being completed.
  Task<UploadRecord> open_upload(const Bucket& bucket, std::string key, std::string upload_id,
                                 Deadline deadline);
  // The last accepted wins. The blob that it replaces stays until the upload has ended.
  // Errors: upload_not_open; else as put().
  Task<> put_part(const Bucket& bucket, std::string key, std::string upload_id, PartInfo part,
                  Deadline deadline, LeaseKeeper* leases = nullptr);
  using CompletePart = penstock::CompletePart;
  using CompleteRequest = penstock::CompleteRequest;
  using PartFault = penstock::PartFault;
  struct Completed {
    PartFault fault = PartFault::none;
    std::uint16_t fault_part = 0;
    std::uint64_t fault_bytes = 0;  // PartFault::too_small: the size of that part
    ObjectRecord record;  // etag, checksums, size
  };
  // Idempotent: the same request again after success gives the same answer for 24 h. Errors:
  // upload_not_open; precondition; not_found - If-Match on an absent key; unavailable;
  // unknown_outcome.
  Task<Completed> complete(const Bucket& bucket, std::string key, std::string upload_id,
                           CompleteRequest request, Deadline deadline);
  // Errors: upload_not_open.
  Task<> abort_upload(const Bucket& bucket, std::string key, std::string upload_id,
                      Deadline deadline);

  // Parts of an object in order, from the record or its manifest (pages are cached by write-id).
  Task<std::vector<PartInfo>> parts(const ObjectRecord& record, Deadline deadline);
  // The blob ranges that make up [offset, offset + length) of an object that is not inline.
  Task<std::vector<BlobRange>> ranges(const ObjectRecord& record, std::uint64_t offset,
                                      std::uint64_t length, Deadline deadline);
  // The same at once, if the record needs no manifest; nullopt: ask with ranges().
  static std::optional<std::vector<BlobRange>> ranges_now(const ObjectRecord& record,
                                                          std::uint64_t offset,
                                                          std::uint64_t length);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
