// Rounds and reads during a change of the group, when both of its lists count (R12).
#include <doctest/doctest.h>

#include <bit>

#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

const RegisterRef kJoint = object_register("key");
}  // namespace

TEST_CASE("joint epoch: an update needs a majority of both lists") {
  RegisterCluster cluster(3, 1, 1, 2);  // lists 0 1 2 and 2 3 4
  REQUIRE(cluster.put(kJoint, "one"));
  cluster.settle_down();
  cluster.acceptors[0]->state = VolumeStatus::State::closed;
  cluster.acceptors[4]->state = VolumeStatus::State::closed;
  REQUIRE(cluster.put(kJoint, "two"));
  cluster.settle_down();
  cluster.acceptors[3]->state = VolumeStatus::State::closed;
  CHECK(cluster.put(kJoint, "three").error().code == Errc::unavailable);
}

TEST_CASE("joint epoch: an update follows the list that is ahead, the old one or the new one") {
  for (const std::vector<std::size_t>& ahead : {std::vector<std::size_t>{0, 1}, {3, 4}}) {
    RegisterCluster cluster(3, 1, 1, 2);  // lists 0 1 2 and 2 3 4
    const auto far = static_cast<std::uint64_t>(cluster.clock.wall().time_since_epoch().count()) +
                     3'600'000'000ull;
    for (const std::size_t index : ahead) {
      cluster.acceptors[index]->ceiling = cluster.acceptors[index]->floor = far;
    }
    const auto snapshot = cluster.put(kJoint, "one");
    REQUIRE(snapshot);
    CHECK(snapshot->ballot.counter > far);
    CHECK(cluster.acceptors[2]->counters.prepares == 2);  // refused once, then told how far to go
  }
}

TEST_CASE("joint epoch: a majority of one list alone is no answer") {
  RegisterCluster cluster(3, 1, 1, 2);  // lists 0 1 2 and 2 3 4
  REQUIRE(cluster.put(kJoint, "one"));
  cluster.settle_down();
  CHECK(text_of(cluster.read(kJoint).value()) == "one");
  cluster.acceptors[3]->state = VolumeStatus::State::closed;
  CHECK(text_of(cluster.read(kJoint).value()) == "one");
  cluster.acceptors[4]->state = VolumeStatus::State::closed;
  CHECK(cluster.read(kJoint).error().code == Errc::unavailable);
}

TEST_CASE("joint epoch: a read from memory answers only what a majority of both lists agrees on") {
  RegisterCluster cluster(3, 1, 1, 2);  // lists 0 1 2 and 2 3 4
  for (const auto& acceptor : cluster.acceptors) acceptor->cached = true;
  constexpr unsigned kAll = 0b11111;
  const auto both = [](unsigned set) {
    return std::popcount(set & 0b00111) >= 2 && std::popcount(set & 0b11100) >= 2;
  };
  for (int key = 0; key < 16; ++key) {  // the volume that is asked first depends on the key
    const RegisterRef ref = object_register(std::to_string(key));
    for (unsigned holders = 0; holders <= kAll; ++holders) {
      CAPTURE(holders);
      REQUIRE(cluster.put(ref, "one"));
      cluster.settle_down();
      for (std::size_t index = 0; index < 5; ++index) {
        if ((holders >> index & 1) == 0) cluster.acceptors[index]->rows.erase(ref.key);
      }
      const auto answer = cluster.proposer().read_now(ref, ReadWant::value);
      if (holders == kAll) REQUIRE(answer);
      if (answer) CHECK(both(answer->live() ? holders : kAll & ~holders));
    }
  }
}

}  // namespace penstock
