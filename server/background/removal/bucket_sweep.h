// Finishes deletions of buckets that were cut off: a bucket that is `deleting` in two passes has
// lost its deleter. The first live volume of the group that holds the bucket's register does it.
// Thread-safety: one executor.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "server/background/removal/pace.h"

namespace penstock {

class BucketSweep {
 public:
  explicit BucketSweep(BackgroundContext& context) : context_(context), pace_(context) {}
  // Errors: unavailable - the buckets could not be listed.
  Task<> pass();

 private:
  using Seen = std::map<std::string, std::pair<BucketId, BucketNumber>>;

  BackgroundContext& context_;
  Pace pace_;
  Seen deleting_;  // as of the last pass
};

}  // namespace penstock
