// Names -> registers: buckets, the spread of their keys over groups, and LIST.
// Thread-safety: all methods from any I/O thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/index/bucket_catalog.h"
#include "server/index/list_page.h"
#include "server/index/list_uploads.h"

namespace penstock {

class Index {
 public:
  Index(Membership& membership, Proposer& proposer, Clock& clock, Random& random);
  ~Index();

  // ---- buckets
  // Positive answers are cached up to 1 s (volumes check the number), absence never. If the bucket
  // is being deleted, waits up to 30 s, and after a moment continues the deletion itself, in case
  // the deleter died. Errors: not_found; unavailable; busy.
  Task<std::shared_ptr<const Bucket>> bucket(std::string name, Deadline deadline);
  // As it stands, being deleted or not; past the cache. Errors: not_found; unavailable.
  Task<std::shared_ptr<const Bucket>> bucket_in_any_state(std::string name, Deadline deadline);
  // If it is in the cache. Forget it after `stale_bucket`.
  std::shared_ptr<const Bucket> cached_bucket(const std::string& name);
  void forget_bucket(const std::string& name);
  using Created = BucketCatalog::Created;
  Task<Created> create_bucket(std::string name, std::string owner, std::string region,
                              Deadline deadline);
  // By name. Empty `owner`: of all.
  Task<std::vector<Bucket>> list_buckets(std::string owner, Deadline deadline);
  // With the fence. Errors: not_found; precondition - not empty, nothing changed.
  Task<> delete_bucket(std::string name, Deadline deadline);

  // Finishes a deletion that was cut off, whoever began it. Nothing to do for an open bucket, or
  // while this process does it already. Errors: unavailable; unknown_outcome; timeout.
  Task<> roll_bucket_forward(std::string name, Deadline deadline);

  // ---- registers of a bucket
  static RegisterRef object(const Bucket& bucket, std::string key);
  static RegisterRef upload(const Bucket& bucket, std::string key, std::string upload_id);
  static RegisterRef part(const Bucket& bucket, std::string key, std::string upload_id,
                          std::uint16_t number);
  // The owner of a blob's fragments: an object, or with an upload-id the parts of it.
  static FragmentOwner owner(const Bucket& bucket, std::string key, std::string upload_id = {});

  // ---- lists. Errors: unavailable - below a majority in some group; never a shorter list.
  Task<ListPage> list(std::shared_ptr<const Bucket> bucket, ListRequest request, Deadline deadline);
  Task<UploadPage> list_uploads(std::shared_ptr<const Bucket> bucket, UploadListRequest request,
                                Deadline deadline);
  // Live parts of one upload, ascending: range scans of each replica, majority at one ballot each,
  // else R6.
  Task<std::vector<PartInfo>> list_parts(std::shared_ptr<const Bucket> bucket, std::string key,
                                         std::string upload_id, Deadline deadline,
                                         PartSpan span = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
