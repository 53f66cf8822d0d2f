// Inline bytes go wherever their value goes, and with no other.
#include <doctest/doctest.h>

#include "server/proposer/proposer.h"
#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

const RegisterRef kInlined = object_register("key");

Result<Snapshot> write_inlined(RegisterCluster& cluster, RegisterUpdate& update) {
  return cluster.run(cluster.proposer().update(kInlined, update, cluster.soon()));
}

}  // namespace

TEST_CASE("a value settled with inline bytes brings them to the replicas that lack them") {
  RegisterCluster cluster;
  TextUpdate write(cluster.proposer().new_op_id(), "one");
  write.inline_bytes = std::make_shared<const std::string>("inline");
  cluster.acceptors[0]->state = cluster.acceptors[1]->state = VolumeStatus::State::closed;
  REQUIRE(write_inlined(cluster, write));
  cluster.settle_down();
  cluster.acceptors[0]->state = cluster.acceptors[1]->state = VolumeStatus::State::open;
  REQUIRE(cluster.run(
      cluster.proposer().write_back(kInlined, WriteBack::complete, true, cluster.soon())));
  cluster.settle_down();
  for (const auto& acceptor : cluster.acceptors) {
    CHECK(*acceptor->rows[kInlined.key].inline_of.at(write.op_id()) == "inline");
  }
  const auto whole = cluster.read(kInlined, ReadWant::value_and_inline);
  REQUIRE(whole);
  CHECK(*whole->inline_bytes == "inline");
}

TEST_CASE("inline bytes of a value that came in between are not those of the settled one") {
  RegisterCluster cluster;
  TextUpdate write(cluster.proposer().new_op_id(), "one");
  write.inline_bytes = std::make_shared<const std::string>("inline");
  cluster.acceptors[0]->state = cluster.acceptors[1]->state = VolumeStatus::State::closed;
  REQUIRE(write_inlined(cluster, write));
  TextUpdate later(cluster.proposer().new_op_id(), "two");
  later.inline_bytes = std::make_shared<const std::string>("stranger");
  const RegisterRef elsewhere = object_register("elsewhere");
  REQUIRE(cluster.run(cluster.proposer().update(elsewhere, later, cluster.soon())));
  cluster.settle_down();
  cluster.acceptors[0]->state = cluster.acceptors[1]->state = VolumeStatus::State::open;
  auto& changing = *cluster.acceptors[2];
  changing.fate = [&](VolumeId, RegisterCall call, const RegisterKey&) {
    if (call != RegisterCall::read) return Fate{};
    auto newer = changing.rows.at(elsewhere.key);
    newer.accepted.ballot.counter += 1'000;
    changing.rows[kInlined.key] = newer;
    return Fate{};
  };
  (void)cluster.run(
      cluster.proposer().write_back(kInlined, WriteBack::complete, true, cluster.soon()));
  cluster.settle_down();
  REQUIRE(changing.rows[kInlined.key].inline_of.contains(later.op_id()));
  for (const auto& acceptor : cluster.acceptors) {
    const auto& inline_of = acceptor->rows[kInlined.key].inline_of;
    const auto found = inline_of.find(write.op_id());
    if (found != inline_of.end()) CHECK(*found->second == "inline");
  }
}

TEST_CASE("a repair keeps the inline bytes of the value, also where they were missing") {
  RegisterCluster cluster;
  TextUpdate write(cluster.proposer().new_op_id(), "one");
  write.inline_bytes = std::make_shared<const std::string>("inline");
  cluster.acceptors[0]->state = VolumeStatus::State::closed;
  REQUIRE(write_inlined(cluster, write));
  cluster.settle_down();
  cluster.acceptors[0]->state = VolumeStatus::State::open;
  TextUpdate repair(OpId{}, "moved");
  const auto moved = write_inlined(cluster, repair);
  REQUIRE(moved);
  CHECK(moved->value->inline_bytes == 6);
  cluster.settle_down();
  CHECK(*cluster.acceptors[0]->rows[kInlined.key].inline_of.at(write.op_id()) == "inline");
  CHECK(*cluster.read(kInlined, ReadWant::value_and_inline)->inline_bytes == "inline");
}

}  // namespace penstock
