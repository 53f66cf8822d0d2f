// Updates of registers (R2, R7, R8) against acceptors in memory.
#include "server/proposer/proposer.h"

#include <doctest/doctest.h>

#include "server/proposer/straggler_set.h"
#include "tests/fake/code_of.h"
#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

const RegisterRef kRef = object_register("key");

Fate lost_request() {
  Fate fate;
  fate.lose_request = true;
  return fate;
}

// Loses accepts to these acceptors until `left` of them were lost.
void lose_accepts(RegisterCluster& cluster, std::vector<std::size_t> indexes, int times) {
  for (const std::size_t index : indexes) {
    auto left = std::make_shared<int>(times);
    cluster.acceptors[index]->fate = [left](VolumeId, RegisterCall call, const RegisterKey&) {
      return call == RegisterCall::accept && (*left)-- > 0 ? lost_request() : Fate{};
    };
  }
}

Result<Snapshot> update(RegisterCluster& cluster, RegisterUpdate& update, std::size_t process = 0) {
  return cluster.run(cluster.proposer(process).update(kRef, update, cluster.soon()));
}

std::shared_ptr<const RegisterValue> value_at(const RegisterCluster& cluster, std::size_t index) {
  const auto& row = cluster.acceptors[index]->rows.at(kRef.key);
  return std::make_shared<RegisterValue>(decode_value(kRef.key, *row.accepted.value).value());
}
}  // namespace

TEST_CASE("an update pushes its op-id in front of the chain, which ends in zero or after eight") {
  RegisterCluster cluster;
  std::vector<OpId> ids;
  for (int n = 1; n <= 11; ++n) {
    TextUpdate next(cluster.proposer().new_op_id(), std::to_string(n));
    ids.insert(ids.begin(), next.op_id());
    const auto snapshot = update(cluster, next);
    REQUIRE(snapshot);
    const RegisterValue& value = *snapshot->value;
    CHECK(value.op_id == ids.front());
    CHECK(value.origin == snapshot->ballot);
    std::vector<OpId> expected(ids.begin() + 1, ids.begin() + std::min(n, 9));
    if (n <= 9) expected.push_back(OpId{});
    CHECK(std::vector<OpId>(value.chain.begin(), value.chain.end()) == expected);
    CHECK(value.chain_contains(OpId{}) == (n <= 9));
  }
}

TEST_CASE("an update whose op-id is zero keeps op-id, chain and origin and counts a revision") {
  RegisterCluster cluster;
  const auto before = cluster.put(kRef, "one");
  REQUIRE(before);
  TextUpdate repair(OpId{}, "moved");
  const auto after = update(cluster, repair);
  REQUIRE(after);
  CHECK(text_of(*after) == "moved");
  CHECK(after->value->op_id == before->value->op_id);
  CHECK(after->value->chain == before->value->chain);
  CHECK(after->value->origin == before->value->origin);
  CHECK(after->value->revision == 1);
}

TEST_CASE("a condition that fails is answered from a settled value") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kRef, "one"));
  TextUpdate conditional(cluster.proposer().new_op_id(), "two", "-");
  const auto refused = update(cluster, conditional);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::precondition);
  CHECK(text_of(cluster.read(kRef).value()) == "one");
}

TEST_CASE("a condition that fails on an unsettled value settles it first") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kRef, "one"));
  cluster.settle_down();
  // "two" reaches volume 0 only; its writer gives up.
  for (const std::size_t index : {1, 2, 3, 4}) {
    cluster.acceptors[index]->fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
      return call == RegisterCall::accept ? lost_request() : Fate{};
    };
  }
  TextUpdate lost(cluster.proposer().new_op_id(), "two");
  const auto brief = cluster.clock.boot() + Duration(100'000);
  CHECK(cluster.run(cluster.proposer().update(kRef, lost, brief)).error().code ==
        Errc::unknown_outcome);
  for (const auto& acceptor : cluster.acceptors) acceptor->fate = nullptr;
  // The next writer's quorum holds volume 0: what it refuses on must be chosen when it answers.
  cluster.acceptors[3]->state = cluster.acceptors[4]->state = VolumeStatus::State::closed;
  TextUpdate conditional(cluster.proposer().new_op_id(), "three", "one");
  CHECK(update(cluster, conditional).error().code == Errc::precondition);
  CHECK(conditional.seen == "two");
  cluster.settle_down();
  cluster.acceptors[3]->state = cluster.acceptors[4]->state = VolumeStatus::State::open;
  cluster.acceptors[0]->state = VolumeStatus::State::closed;
  CHECK(text_of(cluster.read(kRef).value()) == "two");
}

TEST_CASE("an accept that reached a majority without its writer learning so is found applied") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kRef, "one"));
  cluster.settle_down();
  auto left = std::make_shared<int>(5);
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->fate = [left](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      fate.lose_reply = call == RegisterCall::accept && (*left)-- > 0;
      return fate;
    };
  }
  TextUpdate two(cluster.proposer().new_op_id(), "two", "one");
  const auto snapshot = update(cluster, two);
  REQUIRE(snapshot);
  CHECK(text_of(*snapshot) == "two");
  CHECK(two.decisions == 1);  // not evaluated on its own result
  CHECK(snapshot->op_id() == two.op_id());
}

TEST_CASE("an accept that reached nobody is written again with the same op-id") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kRef, "one"));
  cluster.settle_down();
  lose_accepts(cluster, {0, 1, 2, 3, 4}, 1);
  TextUpdate two(cluster.proposer().new_op_id(), "two", "one");
  const auto snapshot = update(cluster, two);
  REQUIRE(snapshot);
  CHECK(two.decisions == 2);
  CHECK(snapshot->op_id() == two.op_id());
  CHECK(snapshot->value->origin < snapshot->ballot);
  cluster.settle_down();
  CHECK(text_of(cluster.read(kRef).value()) == "two");
}

TEST_CASE("an update overtaken by one on the same base and lost from the chain is unknown") {
  RegisterCluster cluster(5, 2);
  REQUIRE(cluster.put(kRef, "base"));
  cluster.settle_down();
  lose_accepts(cluster, {0, 1, 2, 3, 4}, 1);
  // While the first writer waits for its lost accepts, nine others push its base off the chain.
  TextUpdate two(cluster.proposer().new_op_id(), "two");
  std::optional<Result<Snapshot>> outcome;
  auto ended = [&](std::exception_ptr, Result<Snapshot> result) { outcome = std::move(result); };
  boost::asio::co_spawn(cluster.io, cluster.proposer(0).update(kRef, two, cluster.soon()),
                        std::move(ended));
  run_until(cluster.io, cluster.clock, [&] { return two.decisions == 1; });
  while (cluster.io.poll_one() > 0) {
  }
  for (int n = 0; n < 9; ++n) {
    TextUpdate other(cluster.proposer(1).new_op_id(), "other" + std::to_string(n));
    REQUIRE(update(cluster, other, 1));
  }
  run_until(cluster.io, cluster.clock, [&] { return outcome.has_value(); });
  REQUIRE(outcome);
  REQUIRE(!*outcome);
  CHECK(outcome->error().code == Errc::unknown_outcome);
  CHECK(two.decisions == 1);
}

TEST_CASE("base absent and a purge since that one of the quorum knows: unknown, not repeated") {
  for (const std::size_t knows : {0, 1, 2}) {
    for (const std::size_t closed : {(knows + 1) % 3, (knows + 2) % 3}) {
      RegisterCluster cluster(3);
      lose_accepts(cluster, {0, 1, 2}, 1);
      TextUpdate one(cluster.proposer().new_op_id(), "one");
      std::optional<Result<Snapshot>> outcome;
      auto ended = [&](std::exception_ptr, Result<Snapshot> result) {
        outcome = std::move(result);
      };
      boost::asio::co_spawn(cluster.io, cluster.proposer().update(kRef, one, cluster.soon()),
                            std::move(ended));
      run_until(cluster.io, cluster.clock, [&] { return one.decisions == 1; });
      const auto now = cluster.clock.wall().time_since_epoch().count();
      // The drop was done by those two of whom the later quorum sees one.
      for (const std::size_t index : {knows, closed}) {
        cluster.acceptors[index]->horizon = static_cast<std::uint64_t>(now) + 1000;
      }
      cluster.acceptors[closed]->state = VolumeStatus::State::closed;
      run_until(cluster.io, cluster.clock, [&] { return outcome.has_value(); });
      REQUIRE(!*outcome);
      CHECK(outcome->error().code == Errc::unknown_outcome);
      CHECK(one.decisions == 1);
    }
  }
}

TEST_CASE("no quorum before anything was sent is unavailable") {
  RegisterCluster cluster;
  for (const std::size_t index : {0, 1, 2}) {
    cluster.acceptors[index]->state = VolumeStatus::State::closed;
  }
  TextUpdate one(cluster.proposer().new_op_id(), "one");
  const auto refused = update(cluster, one);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::unavailable);
  CHECK(one.decisions == 0);
}

TEST_CASE("the quorum lost after an accept was sent leaves the outcome unknown") {
  RegisterCluster cluster;
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
      return call == RegisterCall::accept ? lost_request() : Fate{};
    };
  }
  TextUpdate one(cluster.proposer().new_op_id(), "one");
  std::optional<Result<Snapshot>> outcome;
  auto ended = [&](std::exception_ptr, Result<Snapshot> result) { outcome = std::move(result); };
  boost::asio::co_spawn(cluster.io, cluster.proposer().update(kRef, one, cluster.soon()),
                        std::move(ended));
  run_until(cluster.io, cluster.clock, [&] { return one.decisions == 1; });
  for (const auto& acceptor : cluster.acceptors) acceptor->state = VolumeStatus::State::closed;
  run_until(cluster.io, cluster.clock, [&] { return outcome.has_value(); });
  REQUIRE(!*outcome);
  CHECK(outcome->error().code == Errc::unknown_outcome);
}

TEST_CASE("one replica in the future is left out, a majority in the future is followed") {
  for (const std::size_t future : {1, 3}) {
    RegisterCluster cluster;
    const auto far = static_cast<std::uint64_t>(cluster.clock.wall().time_since_epoch().count()) +
                     3'600'000'000ull;
    for (std::size_t i = 0; i < future; ++i) {
      cluster.acceptors[i]->ceiling = cluster.acceptors[i]->floor = far;
    }
    const auto snapshot = cluster.put(kRef, "one");
    REQUIRE(snapshot);
    CHECK((snapshot->ballot.counter > far) == (future == 3));
    CHECK(text_of(cluster.read(kRef).value()) == "one");
  }
}

TEST_CASE("after all replicas restarted an update jumps over their floors") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kRef, "one"));
  cluster.settle_down();
  for (const auto& acceptor : cluster.acceptors) acceptor->restart();
  const auto snapshot = cluster.put(kRef, "two");
  REQUIRE(snapshot);
  CHECK(snapshot->ballot.counter > cluster.acceptors[0]->floor);
}

TEST_CASE("an absent key stays absent, a complete write-back leaves a tombstone without op-id") {
  RegisterCluster cluster;
  const auto absent =
      cluster.run(cluster.proposer().write_back(kRef, WriteBack::if_needed, false, cluster.soon()));
  REQUIRE(absent);
  CHECK(absent->kind() == ValueKind::absent);
  CHECK(absent->settled);
  CHECK(cluster.acceptors[0]->rows.empty());
  const auto complete =
      cluster.run(cluster.proposer().write_back(kRef, WriteBack::complete, true, cluster.soon()));
  REQUIRE(complete);
  CHECK(complete->kind() == ValueKind::tombstone);
  CHECK(complete->op_id().is_zero());
  cluster.settle_down();
  const auto value = value_at(cluster, 0);
  CHECK(value->op_id.is_zero());
  CHECK(value->chain.size() == 1);
  CHECK(value->chain_contains(OpId{}));
  // What is written upon it reaches back to absent.
  const auto next = cluster.put(kRef, "one");
  REQUIRE(next);
  CHECK(next->value->chain.size() == 1);
  CHECK(next->value->chain_contains(OpId{}));
}

TEST_CASE("a complete write-back accepts a settled value again and keeps who wrote it") {
  RegisterCluster cluster;
  const auto before = cluster.put(kRef, "one");
  REQUIRE(before);
  cluster.settle_down();
  const auto plain =
      cluster.run(cluster.proposer().write_back(kRef, WriteBack::if_needed, false, cluster.soon()));
  CHECK(plain->ballot == before->ballot);
  const auto complete =
      cluster.run(cluster.proposer().write_back(kRef, WriteBack::complete, true, cluster.soon()));
  REQUIRE(complete);
  CHECK(complete->ballot > before->ballot);
  CHECK(complete->op_id() == before->op_id());
  CHECK(complete->value->origin == before->value->origin);
  CHECK(complete->value->chain == before->value->chain);
}

TEST_CASE("all volumes full: the update says so; a tombstone still passes") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kRef, "one"));
  for (const auto& acceptor : cluster.acceptors) acceptor->full = true;
  CHECK(cluster.put(kRef, "two").error().code == Errc::full);
  TextUpdate erase(cluster.proposer().new_op_id(), "");
  erase.kind = ValueKind::tombstone;
  REQUIRE(update(cluster, erase));
  CHECK(text_of(cluster.read(kRef).value()) == "-");
}

TEST_CASE("a part sends its upload's row first to a replica that lacks it") {
  RegisterCluster cluster;
  RegisterRef upload = kRef;
  upload.key.kind = RowKind::upload;
  upload.key.upload_id = "u1";
  TextUpdate create(cluster.proposer().new_op_id(), "open");
  create.kind = ValueKind::upload_open;
  cluster.acceptors[0]->state = cluster.acceptors[1]->state = VolumeStatus::State::closed;
  REQUIRE(cluster.run(cluster.proposer().update(upload, create, cluster.soon())));
  cluster.settle_down();
  cluster.acceptors[0]->state = cluster.acceptors[1]->state = VolumeStatus::State::open;
  cluster.acceptors[3]->state = cluster.acceptors[4]->state = VolumeStatus::State::closed;

  RegisterRef part = upload;
  part.key.kind = RowKind::part;
  part.key.part = 1;
  TextUpdate write(cluster.proposer().new_op_id(), "part");
  write.kind = ValueKind::part;
  // Only volume 2 has the upload's row and answers: the row must reach volumes 0 and 1, but with
  // volumes 3 and 4 down there is no majority that tells of it at one ballot; it is sent again.
  REQUIRE(cluster.run(cluster.proposer().update(part, write, cluster.soon())));
  cluster.settle_down();
  for (const std::size_t index : {0, 1, 2}) {
    CHECK(cluster.acceptors[index]->rows.contains(part.key));
    CHECK(cluster.acceptors[index]->rows.contains(upload.key));
  }
}

TEST_CASE("a part of a closed upload is refused for good") {
  RegisterCluster cluster;
  RegisterRef upload = kRef;
  upload.key.kind = RowKind::upload;
  upload.key.upload_id = "u1";
  TextUpdate create(cluster.proposer().new_op_id(), "aborted");
  create.kind = ValueKind::upload_aborted;
  REQUIRE(cluster.run(cluster.proposer().update(upload, create, cluster.soon())));
  cluster.settle_down();
  RegisterRef part = upload;
  part.key.kind = RowKind::part;
  part.key.part = 1;
  TextUpdate write(cluster.proposer().new_op_id(), "part");
  write.kind = ValueKind::part;
  CHECK(cluster.run(cluster.proposer().update(part, write, cluster.soon())).error().code ==
        Errc::upload_not_open);
}

TEST_CASE("accepts past their majority run on, and are counted") {
  RegisterCluster cluster;
  cluster.acceptors[4]->fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
    return call == RegisterCall::accept ? lost_request() : Fate{};
  };
  REQUIRE(cluster.put(kRef, "one"));
  CHECK(cluster.proposer().stragglers() >= 1);
  bool drained = false;
  auto ended = [&](std::exception_ptr) { drained = true; };
  boost::asio::co_spawn(cluster.io, cluster.proposer().drain(), std::move(ended));
  cluster.settle_down();
  CHECK(drained);
  CHECK(cluster.proposer().stragglers() == 0);
}

TEST_CASE("a volume at its bound of stragglers gets no new accepts") {
  RegisterCluster cluster;
  std::size_t sent = 0;
  cluster.acceptors[4]->fate = [&sent](VolumeId, RegisterCall call, const RegisterKey&) {
    if (call != RegisterCall::accept) return Fate{};
    ++sent;
    return lost_request();
  };
  const std::string large(60'000, 'x');
  const std::size_t bound = limits::kStragglerBytesPerVolume / large.size() + 1;
  for (std::size_t n = 0; n < bound + 8; ++n) REQUIRE(cluster.put(kRef, large));
  CHECK(sent <= bound);
  cluster.settle_down();
  CHECK(cluster.proposer().stragglers() == 0);
  REQUIRE(cluster.put(kRef, "room again"));
  CHECK(sent <= bound + 1);
}

TEST_CASE("hints of an accept count for the bound of stragglers") {
  RegisterCluster cluster;
  std::size_t sent = 0;
  cluster.acceptors[4]->fate = [&sent](VolumeId, RegisterCall call, const RegisterKey&) {
    if (call != RegisterCall::accept) return Fate{};
    ++sent;
    return lost_request();
  };
  const Hint large{WriteId{1, 1}, WallTime{}, std::string(1'000'000, 'l'), ""};
  const std::size_t bound = limits::kStragglerBytesPerVolume / large.locations.size() + 1;
  for (std::size_t n = 0; n < bound + 8; ++n) {
    TextUpdate write(cluster.proposer().new_op_id(), "text");
    write.hints.assign(1, large);
    REQUIRE(cluster.run(cluster.proposer().update(kRef, write, cluster.soon())));
  }
  CHECK(sent <= bound);
  cluster.settle_down();
}

TEST_CASE("stragglers are bounded in number as well") {
  StragglerSet set;
  const VolumeId volume{1};
  for (std::size_t n = 0; n < limits::kStragglersPerVolume; ++n) {
    CHECK(set.has_room(volume));
    set.add(volume, 1);
  }
  CHECK(!set.has_room(volume));
  CHECK(set.has_room(VolumeId{2}));
  set.remove(volume, 1);
  CHECK(set.has_room(volume));
  CHECK(set.count() == limits::kStragglersPerVolume - 1);
}

TEST_CASE("updates of one key go one after another in the order they came") {
  RegisterCluster cluster;
  std::vector<std::unique_ptr<TextUpdate>> updates;
  std::vector<int> order;
  for (int n = 0; n < 32; ++n) {
    updates.push_back(std::make_unique<TextUpdate>(cluster.proposer().new_op_id(), "x"));
    auto ended = [&order, n](std::exception_ptr, Result<Snapshot> result) {
      CHECK(result);
      order.push_back(n);
    };
    boost::asio::co_spawn(cluster.io,
                          cluster.proposer().update(kRef, *updates.back(), cluster.soon()),
                          std::move(ended));
  }
  cluster.settle_down();
  REQUIRE(order.size() == 32);
  CHECK(std::is_sorted(order.begin(), order.end()));
  for (const auto& one : updates) CHECK(one->decisions == 1);  // no duel
}

TEST_CASE("the queue of a key is bounded") {
  RegisterCluster cluster;
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->fate = [](VolumeId, RegisterCall, const RegisterKey&) { return lost_request(); };
  }
  const std::size_t count = limits::kKeyQueueMax + 3;
  std::vector<std::unique_ptr<TextUpdate>> updates;
  std::map<Errc, std::size_t> errors;
  for (std::size_t n = 0; n < count; ++n) {
    updates.push_back(std::make_unique<TextUpdate>(cluster.proposer().new_op_id(), "x"));
    auto ended = [&errors](std::exception_ptr, Result<Snapshot> result) {
      ++errors[result.error().code];
    };
    boost::asio::co_spawn(cluster.io,
                          cluster.proposer().update(kRef, *updates.back(), cluster.soon()),
                          std::move(ended));
  }
  cluster.settle_down();
  CHECK(errors[Errc::overloaded] == 2);
  CHECK(errors[Errc::unavailable] == count - 2);
}

TEST_CASE("a value above the bound is refused before anything is sent") {
  RegisterCluster cluster;
  CHECK(code_of(cluster.put(kRef, std::string(limits::kValueBytesMax, 'x'))) == Errc::invalid);
  CHECK(cluster.acceptors[0]->rows.empty());
}

}  // namespace penstock
