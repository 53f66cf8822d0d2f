// Which calls an acceptor answers, by the map and the buckets they were made for. Source: rules R12
// (epochs) and the bucket fence. Pure. Thread-safety: none; who holds one locks.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "penstock/volume_client.h"
#include "server/volume/rows/volume_meta.h"

namespace penstock {

class RoundGate {
 public:
  explicit RoundGate(const VolumeMeta& meta);

  // Errors: stale_epoch; epoch_behind; stale_bucket.
  Result<> check(const Round& round, BucketId bucket) const;

  BucketNumber fence(BucketId bucket) const;
  const std::unordered_map<BucketId, BucketNumber>& fences() const { return fences_; }
  void raise_fence(BucketId bucket, BucketNumber number);

  // The rows to write so that `wanted` holds; those that hold already are left out.
  // Errors: stale_epoch - a lower epoch, or the same with another digest; invalid.
  Result<std::vector<GroupEpoch>> check_epochs(const std::vector<GroupEpoch>& wanted) const;
  void set_epoch(const GroupEpoch& epoch);

  // Counts the calls that changed it: two copies of one gate with the same number are equal.
  std::uint64_t changes() const { return changes_; }

 private:
  std::unordered_map<BucketId, BucketNumber> fences_;
  std::vector<GroupEpoch> epochs_;  // by group; epoch zero: unknown
  std::uint64_t changes_ = 0;
};

}  // namespace penstock
