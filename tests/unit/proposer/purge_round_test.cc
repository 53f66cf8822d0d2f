// The two steps of a purge (R9) against acceptors in memory.
#include "server/proposer/purge_round.h"

#include <doctest/doctest.h>

#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

const RegisterRef kPurged = object_register("key");

void put_tombstone(RegisterCluster& cluster) {
  TextUpdate removal(cluster.proposer().new_op_id(), "");
  removal.kind = ValueKind::tombstone;
  REQUIRE(cluster.run(cluster.proposer().update(kPurged, removal, cluster.soon())));
  cluster.settle_down();
}

Result<std::optional<TombstoneMark>> marked(RegisterCluster& cluster) {
  return cluster.run(cluster.proposer().mark_tombstone(kPurged, cluster.soon()));
}

Result<DropEnd> dropped(RegisterCluster& cluster, TombstoneMark mark) {
  return cluster.run(cluster.proposer().drop_tombstone(kPurged, mark, cluster.soon()));
}

std::size_t rows_left(const RegisterCluster& cluster) {
  std::size_t rows = 0;
  for (const auto& acceptor : cluster.acceptors) rows += acceptor->rows.count(kPurged.key);
  return rows;
}
}  // namespace

TEST_CASE("a tombstone that all replicas acked is dropped by all, which remember how far") {
  RegisterCluster cluster;
  put_tombstone(cluster);
  const auto mark = marked(cluster);
  REQUIRE(mark);
  REQUIRE(*mark);
  CHECK((*mark)->epoch == Epoch{1});
  CHECK(dropped(cluster, **mark).value() == DropEnd::all_answered);
  CHECK(rows_left(cluster) == 0);
  for (const auto& acceptor : cluster.acceptors) {
    CHECK(acceptor->horizon == (*mark)->ballot.counter);
  }
}

TEST_CASE("a tombstone that one replica did not ack is not marked") {
  for (std::size_t closed = 0; closed < 5; ++closed) {
    CAPTURE(closed);
    RegisterCluster cluster;
    put_tombstone(cluster);
    cluster.acceptors[closed]->state = VolumeStatus::State::closed;
    const auto mark = marked(cluster);
    REQUIRE(mark);
    CHECK_FALSE(*mark);
  }
}

TEST_CASE("a live value is not marked, and is told to the replica that kept the tombstone") {
  RegisterCluster cluster;
  put_tombstone(cluster);
  cluster.acceptors[4]->state = VolumeStatus::State::closed;
  const auto put = cluster.put(kPurged, "one");
  REQUIRE(put);
  cluster.settle_down();
  cluster.acceptors[4]->state = VolumeStatus::State::open;
  const auto mark = marked(cluster);
  REQUIRE(mark);
  CHECK_FALSE(*mark);
  cluster.settle_down();
  const auto& row = cluster.acceptors[4]->rows.at(kPurged.key);
  CHECK(decode_value(kPurged.key, *row.accepted.value).value().op_id == put->op_id());
}

TEST_CASE("while a group has two lists no tombstone of it is marked or dropped") {
  RegisterCluster cluster(3, 1, 1, 2);
  put_tombstone(cluster);
  const auto mark = marked(cluster);
  REQUIRE(mark);
  CHECK_FALSE(*mark);
  const Ballot ballot = cluster.acceptors[0]->rows.at(kPurged.key).accepted.ballot;
  CHECK(dropped(cluster, TombstoneMark{ballot, Epoch{1}}).value() == DropEnd::void_mark);
  CHECK(rows_left(cluster) == 5);
}

TEST_CASE("a mark of another epoch is void, whoever knows of the newer one") {
  for (const bool volume_ahead : {false, true}) {
    CAPTURE(volume_ahead);
    RegisterCluster cluster;
    put_tombstone(cluster);
    TombstoneMark mark = marked(cluster).value().value();
    if (volume_ahead) {
      for (const auto& acceptor : cluster.acceptors) acceptor->epoch = Epoch{2};
    } else {
      mark.epoch = Epoch{2};
    }
    CHECK(dropped(cluster, mark).value() == DropEnd::void_mark);
    CHECK(rows_left(cluster) == 5);
  }
}

TEST_CASE("a mark that is refused once is made at the ballot which the replicas demand") {
  RegisterCluster cluster;
  put_tombstone(cluster);
  for (const auto& acceptor : cluster.acceptors) acceptor->restart();
  const auto mark = marked(cluster);
  REQUIRE(mark);
  REQUIRE(*mark);
  CHECK(cluster.acceptors[0]->rows.at(kPurged.key).accepted.ballot == (*mark)->ballot);
}

TEST_CASE("a mark is void when a replica holds the tombstone at another ballot by now") {
  RegisterCluster cluster;
  put_tombstone(cluster);
  const auto first = marked(cluster);
  REQUIRE(first);
  REQUIRE(*first);
  const auto second = marked(cluster);  // another process's
  REQUIRE(second);
  REQUIRE(*second);
  const std::size_t rows = rows_left(cluster);
  CHECK(dropped(cluster, **first).value() == DropEnd::void_mark);
  CHECK(rows_left(cluster) == rows);
  CHECK(dropped(cluster, **second).value() == DropEnd::all_answered);
  CHECK(rows_left(cluster) == 0);
}

TEST_CASE("a volume that is out of reach has not acked a mark and not answered a drop") {
  RegisterCluster cluster;
  put_tombstone(cluster);
  const auto mark = marked(cluster);
  REQUIRE(mark);
  REQUIRE(*mark);
  const auto& all = cluster.acceptors;
  std::vector<std::shared_ptr<VolumeClient>> reached(all.begin(), all.end() - 1);
  Membership membership(cluster.map, Ring(), std::move(reached), cluster.clock);
  Proposer proposer(membership, cluster.clock, cluster.random);
  CHECK(cluster.run(proposer.drop_tombstone(kPurged, **mark, cluster.soon())).value() ==
        DropEnd::ask_again);
  CHECK(all.back()->rows.contains(kPurged.key));
  const auto less = cluster.run(proposer.mark_tombstone(kPurged, cluster.soon()));
  REQUIRE(less);
  CHECK_FALSE(*less);
  cluster.settle_down();
}

TEST_CASE("a mark without a majority of promises writes nothing over the value it has not seen") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kPurged, "one"));
  cluster.settle_down();
  for (const std::size_t silent : {0, 1, 2}) {
    cluster.acceptors[silent]->fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      fate.lose_request = call == RegisterCall::prepare;
      return fate;
    };
  }
  const auto mark = marked(cluster);
  REQUIRE(!mark);
  CHECK(mark.error().code == Errc::unavailable);
  cluster.settle_down();
  CHECK(text_of(cluster.read(kPurged).value()) == "one");
}

}  // namespace penstock
