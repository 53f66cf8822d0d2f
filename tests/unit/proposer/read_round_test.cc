// Reads where replicas lack inline bytes, where the map changes, and where there is no quorum.
#include <doctest/doctest.h>

#include "tests/fake/fake_cluster.h"
#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

const RegisterRef kReadKey = object_register("key");

// Each replica that `damaged` names has no inline bytes, or `instead` of them.
void damage_inline(RegisterCluster& cluster, OpId id, const std::vector<std::size_t>& damaged,
                   SharedBytes instead) {
  for (const std::size_t index : damaged) {
    auto& inline_of = cluster.acceptors[index]->rows[kReadKey.key].inline_of;
    if (instead == nullptr) {
      inline_of.erase(id);
    } else {
      inline_of[id] = instead;
    }
  }
}

OpId put_inlined(RegisterCluster& cluster) {
  TextUpdate write(cluster.proposer().new_op_id(), "one");
  write.inline_bytes = std::make_shared<const std::string>("inline");
  REQUIRE(cluster.run(cluster.proposer().update(kReadKey, write, cluster.soon())));
  cluster.settle_down();
  return write.op_id();
}
}  // namespace

TEST_CASE("a replica that lacks the inline bytes, or some of them, leaves the answer to another") {
  const SharedBytes instead[] = {nullptr, std::make_shared<const std::string>("inl")};
  for (const SharedBytes& bytes : instead) {
    for (std::size_t good = 0; good < 5; ++good) {
      CAPTURE(good);
      CAPTURE((bytes == nullptr));
      RegisterCluster cluster;
      const OpId id = put_inlined(cluster);
      std::vector<std::size_t> damaged;
      for (std::size_t i = 0; i < 5; ++i) {
        if (i != good) damaged.push_back(i);
      }
      damage_inline(cluster, id, damaged, bytes);
      const auto whole = cluster.read(kReadKey, ReadWant::value_and_inline);
      REQUIRE(whole);
      REQUIRE(whole->inline_bytes != nullptr);
      CHECK(*whole->inline_bytes == "inline");
      for (const auto& acceptor : cluster.acceptors) acceptor->cached = true;
      const auto at_once = cluster.proposer().read_now(kReadKey, ReadWant::value_and_inline);
      if (at_once) {
        REQUIRE(at_once->inline_bytes != nullptr);
        CHECK(*at_once->inline_bytes == "inline");
      }
    }
  }
}

TEST_CASE("inline bytes that no replica has are an error, never an object without bytes") {
  RegisterCluster cluster;
  damage_inline(cluster, put_inlined(cluster), {0, 1, 2, 3, 4}, nullptr);
  const auto whole = cluster.read(kReadKey, ReadWant::value_and_inline);
  REQUIRE(!whole);
  CHECK(whole.error().code == Errc::unavailable);
  CHECK(text_of(cluster.read(kReadKey).value()) == "one");
}

TEST_CASE("replicas with too much to do are asked again after a while") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kReadKey, "one"));
  cluster.settle_down();
  const BootTime until = cluster.clock.boot() + std::chrono::milliseconds(35);
  for (const std::size_t index : {0, 1, 2}) {
    cluster.acceptors[index]->fate = [&cluster, until](VolumeId, RegisterCall, const RegisterKey&) {
      Fate fate;
      if (cluster.clock.boot() < until) fate.refusal = Errc::overloaded;
      return fate;
    };
  }
  SUBCASE("of a read") { CHECK(text_of(cluster.read(kReadKey).value()) == "one"); }
  SUBCASE("of an update") { CHECK(cluster.put(kReadKey, "two")); }
  CHECK(cluster.clock.boot() >= until);
}

TEST_CASE("a read without a quorum says who did not answer, and prepares nothing") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kReadKey, "one"));
  cluster.settle_down();
  const int prepares = cluster.acceptors[4]->counters.prepares;
  for (const std::size_t index : {0, 1, 2}) {
    cluster.acceptors[index]->state = VolumeStatus::State::closed;
  }
  const auto none = cluster.read(kReadKey);
  REQUIRE(!none);
  CHECK(none.error().code == Errc::unavailable);
  CHECK(none.error().context.find("volume 100") != std::string::npos);
  cluster.settle_down();
  CHECK(cluster.acceptors[4]->counters.prepares == prepares);
}

TEST_CASE("a read goes on while volumes are at an epoch whose map is still on its way") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  auto& objects = cluster.gateway->objects;
  ObjectRecord record;
  record.etag = "e1";
  REQUIRE(cluster.run(objects.put(*bucket, "key", record, nullptr, Condition{}, cluster.soon())));
  cluster.settle_down();
  ClusterMap next = *cluster.map;
  next.epoch = Epoch{2};
  for (MapGroup& group : next.groups) group.epoch = Epoch{2};
  const auto text = std::make_shared<const std::string>(next.to_json());
  cluster.volumes[0]->acceptor.map = std::make_shared<const std::string>("no map at all");
  constexpr int kReadsUntilThen = 100;
  int reads = 0;
  for (auto& volume : cluster.volumes) {
    volume->acceptor.epoch = Epoch{2};
    volume->acceptor.fate = [&](VolumeId, RegisterCall call, const RegisterKey&) {
      // One volume never tells its map; the others are enough.
      if (call == RegisterCall::read && ++reads == kReadsUntilThen) {
        for (std::size_t i = 1; i < cluster.volumes.size(); ++i) {
          cluster.volumes[i]->acceptor.map = text;
        }
      }
      return Fate{};
    };
  }
  const auto got = cluster.run(objects.get(*bucket, "key", false, cluster.soon()));
  CHECK(reads >= kReadsUntilThen);
  REQUIRE(got);
  CHECK(got->record.etag == "e1");
  CHECK(cluster.gateway->membership.map()->epoch == Epoch{2});
}

TEST_CASE("an update learns the map that the volumes are at, before its accept or after it") {
  for (const RegisterCall until : {RegisterCall::prepare, RegisterCall::accept}) {
    CAPTURE(static_cast<int>(until));
    FakeCluster cluster;
    const auto bucket = cluster.make_bucket("b");
    cluster.settle_down();
    ClusterMap next = *cluster.map;
    next.epoch = Epoch{2};
    for (MapGroup& group : next.groups) group.epoch = Epoch{2};
    const auto text = std::make_shared<const std::string>(next.to_json());
    bool changed = false;
    for (auto& volume : cluster.volumes) {
      volume->acceptor.fate = [&](VolumeId, RegisterCall call, const RegisterKey&) {
        if (call == until && !std::exchange(changed, true)) {
          for (auto& each : cluster.volumes) {
            each->acceptor.epoch = Epoch{2};
            each->acceptor.map = text;
          }
        }
        return Fate{};
      };
    }
    ObjectRecord record;
    record.etag = "e1";
    auto& objects = cluster.gateway->objects;
    CHECK(cluster.run(objects.put(*bucket, "key", record, nullptr, Condition{}, cluster.soon())));
    CHECK(changed);
    CHECK(cluster.gateway->membership.map()->epoch == Epoch{2});
    const auto got = cluster.run(objects.get(*bucket, "key", false, cluster.soon()));
    REQUIRE(got);
    CHECK(got->record.etag == "e1");
  }
}

TEST_CASE("a read from memory brings the inline bytes, if they were asked for") {
  RegisterCluster cluster;
  put_inlined(cluster);
  for (const auto& acceptor : cluster.acceptors) acceptor->cached = true;
  const auto whole = cluster.proposer().read_now(kReadKey, ReadWant::value_and_inline);
  REQUIRE(whole);
  REQUIRE(whole->inline_bytes != nullptr);
  CHECK(*whole->inline_bytes == "inline");
  const auto bare = cluster.proposer().read_now(kReadKey, ReadWant::value);
  REQUIRE(bare);
  CHECK(bare->inline_bytes == nullptr);
}

TEST_CASE("a map without register groups answers nothing, it does not say that all is absent") {
  RegisterCluster cluster;
  auto map = std::make_shared<ClusterMap>(*cluster.map);
  map->groups.clear();
  const auto& all = cluster.acceptors;
  std::vector<std::shared_ptr<VolumeClient>> clients(all.begin(), all.end());
  Membership membership(map, Ring(), std::move(clients), cluster.clock);
  Proposer proposer(membership, cluster.clock, cluster.random);
  const auto none = cluster.run(proposer.read(kReadKey, ReadWant::value, cluster.soon()));
  REQUIRE(!none);
  CHECK(none.error().code == Errc::unavailable);
  CHECK(!proposer.read_now(kReadKey, ReadWant::value));
}

}  // namespace penstock
