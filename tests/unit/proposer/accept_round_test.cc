// What an accept round sends to each replica.
#include <doctest/doctest.h>

#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

RegisterRef upload_register() {
  RegisterRef ref = object_register("key");
  ref.key.kind = RowKind::upload;
  ref.key.upload_id = std::string(32, '7');
  return ref;
}
RegisterRef part_register() {
  RegisterRef ref = upload_register();
  ref.key.kind = RowKind::part;
  ref.key.part = 3;
  return ref;
}
Result<Snapshot> write_as(RegisterCluster& cluster, const RegisterRef& ref, ValueKind kind) {
  TextUpdate update(cluster.proposer().new_op_id(), "text");
  update.kind = kind;
  auto written = cluster.run(cluster.proposer().update(ref, update, cluster.soon()));
  cluster.settle_down();
  return written;
}

}  // namespace

TEST_CASE("a value is settled with its inline bytes, however many replicas hold them already") {
  for (const std::size_t replicas : {1, 3, 5}) {
    CAPTURE(replicas);
    RegisterCluster cluster(replicas);
    const RegisterRef ref = object_register("key");
    TextUpdate write(cluster.proposer().new_op_id(), "one");
    write.inline_bytes = std::make_shared<const std::string>("inline");
    REQUIRE(cluster.run(cluster.proposer().update(ref, write, cluster.soon())));
    cluster.settle_down();
    REQUIRE(
        cluster.run(cluster.proposer().write_back(ref, WriteBack::complete, true, cluster.soon())));
    cluster.settle_down();
    const auto whole = cluster.read(ref, ReadWant::value_and_inline);
    REQUIRE(whole);
    REQUIRE(whole->inline_bytes != nullptr);
    CHECK(*whole->inline_bytes == "inline");
  }
}

TEST_CASE("a replica that missed the upload gets its row, then the part") {
  RegisterCluster cluster;
  FakeAcceptor& behind = *cluster.acceptors[0];
  behind.state = VolumeStatus::State::closed;
  REQUIRE(write_as(cluster, upload_register(), ValueKind::upload_open));
  behind.state = VolumeStatus::State::open;
  REQUIRE(write_as(cluster, part_register(), ValueKind::part));
  CHECK(behind.rows.contains(upload_register().key));
  CHECK(behind.rows.contains(part_register().key));
  CHECK(behind.counters.accepts == 3);
}

TEST_CASE("a part that is refused for another reason than a missing upload is not sent again") {
  RegisterCluster cluster;
  REQUIRE(write_as(cluster, upload_register(), ValueKind::upload_open));
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->full = true;
    acceptor->counters = {};
  }
  const auto part = write_as(cluster, part_register(), ValueKind::part);
  REQUIRE(part.has_error());
  CHECK(part.error().code == Errc::full);
  for (const auto& acceptor : cluster.acceptors) CHECK(acceptor->counters.accepts == 1);
}

TEST_CASE("an update goes through while a replica of its group is out of reach") {
  RegisterCluster cluster;
  std::vector<std::shared_ptr<VolumeClient>> reached(cluster.acceptors.begin() + 2,
                                                     cluster.acceptors.end());
  RegisterCluster::Process& process = cluster.processes[0];
  process.proposer.reset();
  process.membership =
      std::make_unique<Membership>(cluster.map, Ring(), std::move(reached), cluster.clock);
  process.proposer = std::make_unique<Proposer>(*process.membership, cluster.clock, cluster.random);
  const RegisterRef ref = object_register("key");
  REQUIRE(cluster.put(ref, "one"));
  CHECK(text_of(cluster.read(ref).value()) == "one");
}

}  // namespace penstock
