#include "server/proposer/ballot_source.h"

#include <doctest/doctest.h>

#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

// One proposer's parts, without anyone to talk to.
struct Source {
  RegisterCluster cluster;
  ProposerContext context{*cluster.processes.front().membership, cluster.clock, cluster.random};
  std::uint64_t clock_us() {
    return static_cast<std::uint64_t>(cluster.clock.wall().time_since_epoch().count());
  }
};

}  // namespace

TEST_CASE("ballots of one operation grow, also while the clock stands or goes back") {
  Source source;
  BallotSource ballots(source.context);
  Ballot last = ballots.next();
  CHECK(last.counter == source.clock_us());
  for (const auto step : {0, -3'600, 0, 1, -1}) {
    auto& clock = source.cluster.clock;
    clock.set_wall(clock.wall() + Duration(std::chrono::seconds(step)));
    const Ballot next = ballots.next();
    CHECK(next > last);
    CHECK(next.counter > last.counter);
    last = next;
  }
}

TEST_CASE("what a majority demands is met exactly, and follows the majority's clock") {
  Source source;
  BallotSource ballots(source.context);
  const std::uint64_t ahead = source.clock_us() + 3'600'000'000;
  (void)ballots.next();
  CHECK(!ballots.follows());
  ballots.demand(ahead);
  CHECK(ballots.next().counter == ahead);
  CHECK(ballots.follows());
  CHECK(ballots.next().counter == ahead + 1);
}

TEST_CASE("what was demanded ends with its operation, and no two operations share a ballot") {
  Source source;
  BallotSource first(source.context);
  first.demand(source.clock_us() + 3'600'000'000);
  const Ballot one = first.next();
  BallotSource second(source.context);
  const Ballot two = second.next();
  CHECK(two.counter == source.clock_us());
  CHECK(one.process == two.process);
  CHECK(one.operation != two.operation);
}

}  // namespace penstock
