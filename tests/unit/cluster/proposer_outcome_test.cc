// What an update answers whose accept went out and was never acknowledged (R8).
#include <doctest/doctest.h>

#include "server/cluster/proposer.h"
#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

const RegisterRef kWritten = object_register("key");

void lose_all_accepts(RegisterCluster& cluster) {
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      fate.lose_request = call == RegisterCall::accept;
      return fate;
    };
  }
}

}  // namespace

TEST_CASE("a fence met after an accept was sent: the outcome is unknown; before, it is stale") {
  for (const bool sent : {false, true}) {
    CAPTURE(sent);
    RegisterCluster cluster;
    lose_all_accepts(cluster);
    TextUpdate one(cluster.proposer().new_op_id(), "one");
    const auto fence = [&] {
      for (const auto& acceptor : cluster.acceptors) {
        acceptor->fences[kWritten.key.bucket] = kWritten.number;
      }
    };
    if (!sent) fence();
    std::optional<Result<Snapshot>> outcome;
    auto ended = [&](std::exception_ptr, Result<Snapshot> result) { outcome = std::move(result); };
    boost::asio::co_spawn(cluster.io, cluster.proposer().update(kWritten, one, cluster.soon()),
                          std::move(ended));
    if (sent) {
      run_until(cluster.io, cluster.clock, [&] { return one.decisions == 1; });
      while (cluster.io.poll_one() > 0) {
      }
      fence();
    }
    run_until(cluster.io, cluster.clock, [&] { return outcome.has_value(); });
    REQUIRE(!*outcome);
    CHECK(outcome->error().code == (sent ? Errc::unknown_outcome : Errc::stale_bucket));
  }
}

}  // namespace penstock
