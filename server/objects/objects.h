// Objects as registers: read, put, removed, with conditions on a settled value, hints for what is
// freed, and an upload that the old record carries moved to `done` first. S3 operations call these;
// HTTP is not known here. Uploads: multipart.h. Thread-safety: all methods from any I/O thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/blobs/blobs.h"
#include "server/blobs/leases.h"
#include "server/index/index.h"
#include "server/objects/condition.h"

namespace penstock {

struct ObjectRead {
  ObjectRecord record;
  SharedBytes inline_bytes;
  OpId op_id;
};

// A `const Bucket&` must live until the call has ended.
class Objects {
 public:
  // `hint_delay`: how long readers may still use what an update frees. Ownership: borrows all.
  Objects(Proposer& proposer, Blobs& blobs, Clock& clock, Duration hint_delay = limits::kHintDelay);
  ~Objects();

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
