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

}  // namespace penstock
