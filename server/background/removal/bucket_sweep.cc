#include "server/background/removal/bucket_sweep.h"

#include <algorithm>

namespace penstock {

Task<> BucketSweep::pass() {
  Index& index = context_.index;
  if (!co_await pace_.turn()) co_return Result<>{};
  CO_TRY(buckets, co_await index.list_buckets("", context_.step_deadline()));
  Progress progress(context_, "buckets", buckets.size());
  const std::vector<VolumeId> local = context_.local_volumes();
  Seen seen = std::move(deleting_);
  deleting_.clear();
  for (const Bucket& bucket : buckets) {
    progress.step();
    if (bucket.record.state == BucketState::open) continue;
    const RegisterRef ref = BucketCatalog::register_of(bucket.name);
    const bool ours = std::any_of(local.begin(), local.end(), [&](VolumeId volume) {
      return rank_in_group(context_, volume, ref.key.bucket, ref.partitions, ref.key.key) ==
             std::size_t{0};
    });
    if (!ours) continue;
    const auto now = std::make_pair(bucket.record.id, bucket.record.number);
    const auto before = seen.find(bucket.name);
    deleting_.emplace(bucket.name, now);
    if (before == seen.end() || before->second != now) continue;
    if (!co_await pace_.turn()) co_return Result<>{};
    // What fails now is tried again in the next pass.
    auto rolled = co_await index.roll_bucket_forward(bucket.name, context_.step_deadline());
    if (!rolled) continue;
    deleting_.erase(bucket.name);
    context_.board->change([](BackgroundStatus& status) { ++status.buckets_rolled_forward; });
  }
  co_return Result<>{};
}

}  // namespace penstock
