#include "server/background/removal/bucket_sweep.h"

#include <doctest/doctest.h>

#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

struct BucketFixture : BackgroundWorld {
  BucketSweep buckets{context};

  // A deleter that dies in its second step.
  void cut_off() {
    for (auto& volume : cluster.volumes) volume->fail_fenced_scans = true;
    auto& first = cluster.another_gateway();
    REQUIRE_FALSE(cluster.run(first.index.delete_bucket("bucket", cluster.soon())));
    cluster.settle_down();
    for (auto& volume : cluster.volumes) volume->fail_fenced_scans = false;
  }
  std::optional<BucketState> state() {
    auto now = cluster.run(cluster.gateway->index.bucket_in_any_state("bucket", cluster.soon()));
    if (!now) return std::nullopt;
    return (*now)->record.state;
  }
};

}  // namespace

TEST_CASE("a removal that was cut off is ended by the second pass that finds it") {
  BucketFixture f;
  f.cut_off();
  REQUIRE(f.pass(f.buckets));
  CHECK(f.state() == BucketState::deleting);  // its deleter may be at work
  REQUIRE(f.pass(f.buckets));
  CHECK(f.state() == std::nullopt);
  CHECK(f.context.board->read().buckets_rolled_forward == 1);
}

TEST_CASE("a bucket that is not empty is open again") {
  BucketFixture f;
  f.put();
  f.cut_off();  // refused before its first step: the bucket is not empty
  REQUIRE(f.state() == BucketState::open);
  f.remove();
  f.cut_off();
  f.name(f.write(), "key");  // no client can, but a put may have been under way
  f.pass(f.buckets);
  f.pass(f.buckets);
  CHECK(f.state() == BucketState::open);
}

TEST_CASE("what cannot be ended now is tried again") {
  BucketFixture f;
  f.cut_off();
  for (auto& volume : f.cluster.volumes) volume->fail_fenced_scans = true;
  f.pass(f.buckets);
  f.pass(f.buckets);
  CHECK(f.state() == BucketState::deleting);
  for (auto& volume : f.cluster.volumes) volume->fail_fenced_scans = false;
  f.pass(f.buckets);
  CHECK(f.state() == std::nullopt);
}

TEST_CASE("only where the first live volume of the bucket's register is") {
  BucketFixture f;
  f.cut_off();
  const RegisterRef ref = BucketCatalog::register_of("bucket");
  const auto share = group_of_key(*f.cluster.map, ref.key.bucket, ref.partitions, ref.key.key);
  const auto replicas = replicas_of(*f.cluster.map, share.group)->volumes;
  f.context.local = {replicas[1]};
  BucketSweep second(f.context);
  f.pass(second);
  f.pass(second);
  CHECK(f.state() == BucketState::deleting);
  f.volume(replicas[0]).acceptor.state = VolumeStatus::State::closed;
  f.pass(second);
  f.pass(second);
  CHECK(f.state() == std::nullopt);
}

}  // namespace penstock
