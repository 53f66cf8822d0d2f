// The group of a register together with the clients of its replicas, looked up once per map.
// Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "penstock/thread_parts.h"
#include "server/membership/membership.h"
#include "server/membership/replica_set.h"

namespace penstock {

struct RegisterGroup {
  GroupId id;
  ReplicaSet set;
  std::vector<std::shared_ptr<VolumeClient>>
      clients;  // by index of set.volumes; null: out of reach

  std::size_t size() const { return clients.size(); }
  Epoch epoch() const { return set.epoch; }
  IndexMask all() const { return IndexMask::below(clients.size()); }
  bool majority(IndexMask replicas) const { return set.quorum.reached(replicas); }
};

class RegisterGroups {
 public:
  explicit RegisterGroups(Membership& membership) : membership_(membership) {}
  // The group that holds `key` of `bucket`, as the map says now. The answer keeps its table alive.
  // Errors: unavailable - the map has no such group.
  Result<std::shared_ptr<const RegisterGroup>> find(BucketId bucket, std::string_view key,
                                                    std::uint32_t partitions);

 private:
  struct Table {
    std::shared_ptr<const ClusterMap> map;
    std::vector<RegisterGroup> groups;
  };
  // Of each thread its own: the count of who holds one is written by each request.
  struct Part {
    std::mutex mutex;
    std::shared_ptr<const Table> table;  // guarded by mutex
  };
  std::shared_ptr<const Table> table();

  Membership& membership_;
  ThreadParts<Part> parts_;
};

}  // namespace penstock
