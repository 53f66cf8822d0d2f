// Buckets by name: registers of system bucket 0, read with a short cache, created by a conditional
// update. Thread-safety: all methods from any I/O thread.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "penstock/thread_parts.h"
#include "server/membership/membership.h"
#include "server/proposer/proposer.h"
#include "server/records/object_record.h"

namespace penstock {

struct Bucket {
  std::string name;
  BucketRecord record;
};

class BucketCatalog {
 public:
  BucketCatalog(Membership& membership, Proposer& proposer, Clock& clock, Random& random);

  static RegisterRef register_of(const std::string& name);
  // From the cache or by a read; a bucket that is being deleted is waited for.
  // Errors: not_found; unavailable; timeout; busy - still being deleted after `patience`.
  Task<std::shared_ptr<const Bucket>> find(std::string name, Duration patience, Deadline deadline);
  // By a read, in whatever state; null = there is none.
  Task<std::shared_ptr<const Bucket>> read(std::string name, Deadline deadline);
  std::shared_ptr<const Bucket> cached(const std::string& name) const;
  void forget(const std::string& name);
  struct Created {
    std::shared_ptr<const Bucket> bucket;
    bool existed = false;  // someone, perhaps the caller, has it
  };
  // Errors: unavailable; unknown_outcome; timeout; busy - one of this name is still being deleted
  // after `patience`.
  Task<Created> create(std::string name, BucketRecord record, Duration patience, Deadline deadline);
  // What a new bucket is made with.
  BucketRecord new_record(std::string owner, std::string region);

 private:
  struct Cached {
    std::shared_ptr<const Bucket> bucket;
    BootTime until;
  };
  void remember(std::shared_ptr<const Bucket> bucket, BootTime asked);

  Membership& membership_;
  Proposer& proposer_;
  Clock& clock_;
  Random& random_;
  // What each thread has read: the count of who holds a bucket is written by each request.
  struct Part {
    mutable std::mutex mutex;
    std::unordered_map<std::string, Cached> cache;  // guarded by mutex; only looked up by name
  };
  ThreadParts<Part> parts_;
};

}  // namespace penstock
