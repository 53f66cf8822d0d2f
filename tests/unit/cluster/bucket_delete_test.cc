#include "server/cluster/bucket_delete.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_cluster.h"

namespace penstock {

TEST_CASE("a deleter that was overtaken succeeds though the name is a new bucket's by then") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  // The first deleter has fenced the bucket; then its round on the bucket's register hangs.
  bool fenced = false;
  std::size_t lost = 0;
  const std::size_t to_lose = cluster.map->groups[0].replicas.size();
  for (const auto& node : cluster.nodes) {
    node->before_scan = [&](const ScanRequest& request) {
      fenced = fenced || request.fence.value != 0;
    };
    node->acceptor.fate = [&](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      fate.lose_request = fenced && call == RegisterCall::prepare && lost < to_lose;
      lost += fate.lose_request ? 1 : 0;
      return fate;
    };
  }
  std::optional<Result<>> outcome;
  auto ended = [&](std::exception_ptr, Result<> result) { outcome = std::move(result); };
  boost::asio::co_spawn(cluster.io,
                        cluster.another_gateway().index.delete_bucket("b", cluster.soon()),
                        std::move(ended));
  REQUIRE(run_until(cluster.io, cluster.clock, [&] { return lost == to_lose; }));

  Index& index = cluster.gateway->index;
  REQUIRE(cluster.run(index.delete_bucket("b", cluster.soon())));
  const auto again = cluster.make_bucket("b");
  REQUIRE(again->record.id != bucket->record.id);
  CHECK(!outcome);
  cluster.settle_down();
  REQUIRE(outcome);
  CHECK(outcome->has_value());
  CHECK(cluster.run(index.bucket("b", cluster.soon())).value()->record.id == again->record.id);
}

TEST_CASE("a deleter whose bucket another one has opened again says that it is not empty") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  bool opened = false;
  for (auto& node : cluster.nodes) {
    node->before_scan = [&](const ScanRequest& request) {
      if (request.fence.value == 0 || std::exchange(opened, true)) return;
      cluster.move_bucket(*bucket, BucketState::open, BucketNumber{3});
    };
  }
  Index& index = cluster.gateway->index;
  const auto deleted = cluster.run(index.delete_bucket("b", cluster.soon()));
  REQUIRE(opened);
  REQUIRE_FALSE(deleted.has_value());
  CHECK(deleted.error().code == Errc::precondition);
  const auto now = cluster.run(index.bucket("b", cluster.soon()));
  REQUIRE(now.has_value());
  CHECK((*now)->record.number == BucketNumber{3});
}

TEST_CASE("a bucket that is open is not rolled forward, though it is empty") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  Index& index = cluster.gateway->index;
  REQUIRE(cluster.run(index.roll_bucket_forward("b", cluster.soon())).has_value());
  const auto now = cluster.run(index.bucket("b", cluster.soon()));
  REQUIRE(now.has_value());
  CHECK((*now)->record.number == bucket->record.number);
  const auto page = cluster.run(index.list(*now, ListRequest{}, cluster.soon()));
  CHECK(page.has_value());  // no fence keeps its requests out
}

}  // namespace penstock
