// What an update answers whose accept went out and was never acknowledged (R8).
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/proposer/proposer.h"
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

TEST_CASE("a refusal whose value could not be settled is no answer") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kWritten, "one"));
  cluster.settle_down();
  // "two" reaches volume 0 only; its writer gives up.
  lose_all_accepts(cluster);
  cluster.acceptors[0]->fate = nullptr;
  TextUpdate lost(cluster.proposer().new_op_id(), "two");
  const auto brief = cluster.clock.boot() + Duration(100'000);
  CHECK(cluster.run(cluster.proposer().update(kWritten, lost, brief)).error().code ==
        Errc::unknown_outcome);
  cluster.settle_down();
  lose_all_accepts(cluster);
  cluster.acceptors[3]->state = cluster.acceptors[4]->state = VolumeStatus::State::closed;
  TextUpdate conditional(cluster.proposer().new_op_id(), "three", "one");
  const auto refused =
      cluster.run(cluster.proposer().update(kWritten, conditional, cluster.soon()));
  CHECK(conditional.seen == "two");
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::unavailable);
}

TEST_CASE("an update without a quorum says who did not answer") {
  RegisterCluster cluster;
  for (const std::size_t index : {0, 1, 2}) {
    cluster.acceptors[index]->state = VolumeStatus::State::closed;
  }
  const auto none = cluster.put(kWritten, "one");
  REQUIRE(!none);
  CHECK(none.error().code == Errc::unavailable);
  CHECK(none.error().context.find("volume 100") != std::string::npos);
}

TEST_CASE("a majority of full volumes does not say what the others did") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kWritten, "one"));
  for (const std::size_t full : {0, 1, 2}) cluster.acceptors[full]->full = true;
  for (const std::size_t silent : {3, 4}) {
    cluster.acceptors[silent]->fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      fate.lose_reply = call == RegisterCall::accept;
      return fate;
    };
  }
  const auto put = cluster.put(kWritten, "two");
  CHECK((put.has_value() || put.error().code == Errc::unknown_outcome));
}

TEST_CASE("a majority that stalls for two seconds is waited for, and the update has one outcome") {
  RegisterCluster cluster;
  const BootTime begin = cluster.clock.boot();
  for (const std::size_t index : {0, 1, 2}) {
    cluster.acceptors[index]->fate = [&cluster, begin](VolumeId, RegisterCall call,
                                                       const RegisterKey&) {
      Fate fate;
      const Duration left = begin + std::chrono::seconds(2) - cluster.clock.boot();
      if (call == RegisterCall::accept && left > Duration(0)) fate.lose_request = true;
      if (call == RegisterCall::prepare && left < std::chrono::seconds(2)) {
        fate.request_delay = std::max(left, fate.request_delay);
      }
      return fate;
    };
  }
  TextUpdate one(cluster.proposer().new_op_id(), "one", "-");
  const auto written = cluster.run(cluster.proposer().update(kWritten, one, cluster.soon()));
  REQUIRE(written);
  CHECK(text_of(*written) == "one");
  CHECK(cluster.clock.boot() - begin >= std::chrono::seconds(2));
}

TEST_CASE("a majority that stays silent is given up after five seconds, one that is away at once") {
  for (const bool silent : {true, false}) {
    CAPTURE(silent);
    RegisterCluster cluster;
    for (const std::size_t index : {0, 1, 2}) {
      if (!silent) {
        cluster.acceptors[index]->state = VolumeStatus::State::closed;
        continue;
      }
      cluster.acceptors[index]->fate = [](VolumeId, RegisterCall, const RegisterKey&) {
        Fate fate;
        fate.lose_request = true;
        return fate;
      };
    }
    const BootTime begin = cluster.clock.boot();
    TextUpdate one(cluster.proposer().new_op_id(), "one");
    const auto none = cluster.run(cluster.proposer().update(kWritten, one, cluster.soon()));
    REQUIRE(!none);
    CHECK(none.error().code == Errc::unavailable);
    const Duration took = cluster.clock.boot() - begin;
    CHECK(took >= (silent ? Duration(std::chrono::seconds(5)) : Duration(0)));
    CHECK(took < (silent ? Duration(std::chrono::seconds(6)) : Duration(limits::kRegisterCall)));
  }
}

TEST_CASE("silence behind an accept ends in an unknown outcome, after five seconds of it") {
  RegisterCluster cluster;
  lose_all_accepts(cluster);
  const BootTime begin = cluster.clock.boot();
  TextUpdate one(cluster.proposer().new_op_id(), "one");
  const auto none = cluster.run(cluster.proposer().update(kWritten, one, cluster.soon()));
  REQUIRE(!none);
  CHECK(none.error().code == Errc::unknown_outcome);
  CHECK(cluster.clock.boot() - begin >= Duration(std::chrono::seconds(5)));
}

TEST_CASE("one refusal amid a stall does not end the patience with it") {
  RegisterCluster cluster;
  const BootTime begin = cluster.clock.boot();
  int refusals = 0;
  for (const std::size_t index : {0, 1, 2}) {
    cluster.acceptors[index]->fate = [&, begin](VolumeId, RegisterCall, const RegisterKey&) {
      const auto passed = cluster.clock.boot() - begin;
      Fate fate;
      fate.lose_request = passed < std::chrono::seconds(3);
      if (passed >= std::chrono::milliseconds(1700) && refusals < 3) {
        ++refusals;
        fate.lose_request = false;
        fate.refusal = Errc::unavailable;
      }
      return fate;
    };
  }
  TextUpdate one(cluster.proposer().new_op_id(), "one");
  CHECK(cluster.run(cluster.proposer().update(kWritten, one, cluster.soon())));
  CHECK(refusals == 3);
}

TEST_CASE("an update whose accept is out waits for volumes that are too busy to say more") {
  RegisterCluster cluster;
  const BootTime begin = cluster.clock.boot();
  int accepts = 0;
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->fate = [&, begin](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      if (cluster.clock.boot() - begin >= std::chrono::seconds(2)) return fate;
      if (call == RegisterCall::accept && ++accepts <= 5) {
        fate.lose_request = true;
      } else if (accepts >= 5) {
        fate.refusal = Errc::overloaded;
      }
      return fate;
    };
  }
  TextUpdate one(cluster.proposer().new_op_id(), "one", "-");
  CHECK(cluster.run(cluster.proposer().update(kWritten, one, cluster.soon())));
  CHECK(cluster.clock.boot() - begin >= std::chrono::seconds(2));
}

TEST_CASE("two hundred updates that meet a stall of two seconds all succeed behind it") {
  RegisterCluster cluster;
  const BootTime end = cluster.clock.boot() + std::chrono::seconds(2);
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->fate = [&cluster, end](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      const Duration left = end - cluster.clock.boot();
      if (call == RegisterCall::accept) fate.request_delay = std::max(left, fate.request_delay);
      return fate;
    };
  }
  constexpr int kUpdates = 200;
  int written = 0, ended = 0;
  std::vector<std::unique_ptr<TextUpdate>> updates;
  for (int i = 0; i < kUpdates; ++i) {
    updates.push_back(std::make_unique<TextUpdate>(cluster.proposer().new_op_id(), "one", "-"));
    auto count = [&](std::exception_ptr, Result<Snapshot> result) {
      ++ended;
      written += result ? 1 : 0;
    };
    const RegisterRef key = object_register("key-" + std::to_string(i));
    boost::asio::co_spawn(cluster.io,
                          cluster.proposer().update(key, *updates.back(), cluster.soon()),
                          std::move(count));
  }
  run_until(cluster.io, cluster.clock, [&] { return ended == kUpdates; });
  CHECK(written == kUpdates);
}

}  // namespace penstock
