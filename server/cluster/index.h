// Names -> registers: buckets, the spread of their keys over groups, and LIST (metadata "LIST, linearizable per key").
// Thread-safety: all methods from any I/O thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "server/cluster/object_record.h"
#include "server/cluster/proposer.h"

namespace penstock {

struct Bucket {
  std::string name;
  BucketRecord record;
};

struct ListRequest {
  std::string prefix;
  std::string delimiter;
  std::string after;            // keys strictly greater than this ...
  bool after_is_prefix = false; // ... or, if `after` is a common prefix, past everything under it
  std::size_t max_keys = 1000;  // keys + common prefixes
};
struct ListEntry {
  std::string key;              // object key, or the common prefix
  bool is_prefix = false;
  ObjectSummary summary;
};
struct ListPage {
  std::vector<ListEntry> entries;  // in byte order of key
  bool truncated = false;
  std::string next_after;          // with next_after_is_prefix: where the next page begins
  bool next_after_is_prefix = false;
};

struct UploadEntry {
  std::string key;
  std::string upload_id;
  UploadRecord record;
  bool is_prefix = false;
};
struct UploadPage {
  std::vector<UploadEntry> entries;
  bool truncated = false;
  std::string next_key;
  std::string next_upload_id;
};
struct UploadListRequest {
  std::string prefix, delimiter, key_marker, upload_id_marker;
  std::size_t max_uploads = 1000;
};

class Index {
 public:
  Index(Membership& membership, Proposer& proposer, Clock& clock, Random& random);
  ~Index();

  // ---- buckets
  // Positive answers are cached up to 1 s (volumes check the number), absence never. A bucket being deleted: waits up to 30 s.
  // Errors: not_found; unavailable; busy.
  Task<std::shared_ptr<const Bucket>> bucket(std::string name, Deadline deadline);
  // If it is in the cache. Forget it after `stale_bucket`.
  std::shared_ptr<const Bucket> cached_bucket(const std::string& name);
  void forget_bucket(const std::string& name);
  struct Created { std::shared_ptr<const Bucket> bucket; bool existed = false; };  // existed: someone (perhaps the owner) has it
  Task<Created> create_bucket(std::string name, std::string owner, std::string region, Deadline deadline);
  Task<std::vector<Bucket>> list_buckets(std::string owner, Deadline deadline);
  // With the fence. Errors: not_found; precondition - not empty, nothing changed.
  Task<> delete_bucket(std::string name, Deadline deadline);

  // ---- registers of a bucket
  static RegisterRef object(const Bucket& bucket, std::string key);
  static RegisterRef upload(const Bucket& bucket, std::string key, std::string upload_id);
  static RegisterRef part(const Bucket& bucket, std::string key, std::string upload_id, std::uint16_t number);

  // ---- lists. Errors: unavailable - below a majority in some group; never a shorter list.
  Task<ListPage> list(std::shared_ptr<const Bucket> bucket, ListRequest request, Deadline deadline);
  Task<UploadPage> list_uploads(std::shared_ptr<const Bucket> bucket, UploadListRequest request, Deadline deadline);
  // All live parts of one upload, ascending: one range scan per replica, majority at one ballot each, else R6.
  Task<std::vector<PartInfo>> list_parts(std::shared_ptr<const Bucket> bucket, std::string key, std::string upload_id,
                                         Deadline deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
