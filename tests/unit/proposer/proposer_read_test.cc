// Reads of registers (R6) against acceptors in memory.
#include <doctest/doctest.h>

#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

const RegisterRef kKey = object_register("key");

// Puts a row straight into an acceptor, as an accept that reached only it.
void place(FakeAcceptor& acceptor, const RegisterRef& ref, Ballot ballot, std::string text,
           OpId op_id, SharedBytes inline_bytes = nullptr) {
  RegisterValue value;
  value.kind = ValueKind::object;
  value.op_id = op_id;
  value.chain.push_back(OpId{});
  value.payload = std::move(text);
  value.inline_bytes =
      inline_bytes == nullptr ? 0 : static_cast<std::uint32_t>(inline_bytes->size());
  FakeAcceptor::Row& row = acceptor.rows[ref.key];
  row.accepted.ballot = ballot;
  row.accepted.epoch = Epoch{1};
  row.accepted.value = std::make_shared<const std::string>(encode(ref.key, value));
  if (inline_bytes != nullptr) row.inline_of[op_id] = std::move(inline_bytes);
}

std::size_t holders(const RegisterCluster& cluster, Ballot ballot) {
  std::size_t count = 0;
  for (const auto& acceptor : cluster.acceptors) {
    const auto row = acceptor->rows.find(kKey.key);
    count += row != acceptor->rows.end() && row->second.accepted.ballot == ballot ? 1 : 0;
  }
  return count;
}

// Two replicas hold the value, two hold nothing and one is down: no majority at one ballot.
void place_half(RegisterCluster& cluster, Ballot ballot, SharedBytes inline_bytes = nullptr) {
  cluster.acceptors[0]->state = VolumeStatus::State::closed;
  for (const std::size_t index : {3, 4}) {
    place(*cluster.acceptors[index], kKey, ballot, "half", {1, 1}, inline_bytes);
  }
}

int sum(const RegisterCluster& cluster, int FakeAcceptor::Counters::*counter) {
  int count = 0;
  for (const auto& acceptor : cluster.acceptors) count += acceptor->counters.*counter;
  return count;
}
}  // namespace

TEST_CASE("an absent register reads as absent") {
  RegisterCluster cluster;
  const auto snapshot = cluster.read(kKey);
  REQUIRE(snapshot);
  CHECK(snapshot->kind() == ValueKind::absent);
  CHECK(snapshot->settled);
  CHECK(!cluster.proposer().read_now(kKey, ReadWant::value));
}

TEST_CASE("a read returns what was written and asks one replica only for the record") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kKey, "one"));
  cluster.settle_down();
  const auto snapshot = cluster.read(kKey);
  REQUIRE(snapshot);
  CHECK(text_of(*snapshot) == "one");
  CHECK(snapshot->settled);
  CHECK(sum(cluster, &FakeAcceptor::Counters::whole_reads) == 1);
  CHECK(sum(cluster, &FakeAcceptor::Counters::reads) == 3);
}

TEST_CASE("a read from memory asks no more replicas than a majority") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kKey, "one"));
  cluster.settle_down();
  for (const auto& acceptor : cluster.acceptors) acceptor->cached = true;
  const auto snapshot = cluster.proposer().read_now(kKey, ReadWant::value);
  REQUIRE(snapshot);
  CHECK(text_of(*snapshot) == "one");
  CHECK(sum(cluster, &FakeAcceptor::Counters::reads_now) == 3);
  // Absent at a majority is an answer as well.
  const auto absent = cluster.proposer().read_now(object_register("other"), ReadWant::value);
  REQUIRE(absent);
  CHECK(absent->kind() == ValueKind::absent);
}

TEST_CASE("a read from memory takes the record of one replica, and the ballots that others know") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kKey, "one"));
  cluster.settle_down();
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->cached = true;
    acceptor->knows_ballots = true;
  }
  const auto snapshot = cluster.proposer().read_now(kKey, ReadWant::value);
  REQUIRE(snapshot);
  CHECK(text_of(*snapshot) == "one");
  CHECK(sum(cluster, &FakeAcceptor::Counters::reads_now) == 1);
  CHECK(sum(cluster, &FakeAcceptor::Counters::ballots_now) == 2);
  // Who does not know it is asked for the row.
  for (const auto& acceptor : cluster.acceptors) {
    acceptor->counters = {};
    acceptor->knows_ballots = acceptor != cluster.acceptors[0];
  }
  for (int i = 0; i < 5; ++i) {  // keys of which not the same replica is asked first
    const RegisterRef key = object_register("key " + std::to_string(i));
    REQUIRE(cluster.put(key, "one"));
    cluster.settle_down();
    REQUIRE(cluster.proposer().read_now(key, ReadWant::value));
  }
  const int asked = sum(cluster, &FakeAcceptor::Counters::reads_now);
  const int known = sum(cluster, &FakeAcceptor::Counters::ballots_now);
  CHECK(asked + known == 15);
  CHECK(asked > 5);
  CHECK(known > 5);
  CHECK(cluster.acceptors[0]->counters.ballots_now == 0);
  // That a key is absent nobody knows in this way.
  REQUIRE(cluster.proposer().read_now(object_register("other"), ReadWant::value));
  CHECK(sum(cluster, &FakeAcceptor::Counters::ballots_now) == known);
}

TEST_CASE("a read from memory says nothing when the replicas disagree") {
  for (const bool knows : {false, true}) {
    RegisterCluster cluster;
    for (const auto& acceptor : cluster.acceptors) {
      acceptor->cached = true;
      acceptor->knows_ballots = knows;
    }
    place(*cluster.acceptors[0], kKey, {10, 1, 1}, "a", {1, 1});
    place(*cluster.acceptors[1], kKey, {10, 1, 1}, "a", {1, 1});
    place(*cluster.acceptors[2], kKey, {11, 1, 1}, "b", {2, 2});
    CHECK(!cluster.proposer().read_now(kKey, ReadWant::value));
  }
}

TEST_CASE("a read from memory works with one volume closed, whichever it is") {
  for (std::size_t closed = 0; closed < 5; ++closed) {
    RegisterCluster cluster;
    REQUIRE(cluster.put(kKey, "one"));
    cluster.settle_down();
    for (const auto& acceptor : cluster.acceptors) acceptor->cached = true;
    cluster.acceptors[closed]->state = VolumeStatus::State::closed;
    const auto snapshot = cluster.proposer().read_now(kKey, ReadWant::value);
    REQUIRE(snapshot);
    CHECK(text_of(*snapshot) == "one");
  }
}

TEST_CASE("a value without a majority is sent again at its own ballot") {
  RegisterCluster cluster;
  const Ballot ballot{10, 1, 1};
  place_half(cluster, ballot);
  const auto snapshot = cluster.read(kKey);
  REQUIRE(snapshot);
  CHECK(text_of(*snapshot) == "half");
  CHECK(snapshot->ballot == ballot);
  cluster.settle_down();
  CHECK(holders(cluster, ballot) == 4);
  CHECK(sum(cluster, &FakeAcceptor::Counters::prepares) == 0);
}

TEST_CASE("a value sent again carries its inline bytes") {
  RegisterCluster cluster;
  const auto bytes = std::make_shared<const std::string>("inline");
  place_half(cluster, {10, 1, 1}, bytes);
  const auto snapshot = cluster.read(kKey, ReadWant::value_and_inline);
  REQUIRE(snapshot);
  REQUIRE(snapshot->inline_bytes != nullptr);
  CHECK(*snapshot->inline_bytes == "inline");
  cluster.settle_down();
  for (const std::size_t index : {1, 2, 3, 4}) {
    CHECK(*cluster.acceptors[index]->rows[kKey.key].inline_of.at({1, 1}) == "inline");
  }
}

TEST_CASE("a re-send that a promise refuses ends in a write-back") {
  RegisterCluster cluster;
  place_half(cluster, {10, 1, 1});
  auto promise = std::make_shared<PrepareRequest>();
  promise->key = kKey.key;
  promise->ballot = Ballot{1'700'000'000'000'001, 9, 9};
  promise->round.epoch = Epoch{1};
  promise->round.bucket_number = kKey.number;
  for (const std::size_t index : {1, 2, 3, 4}) {
    const auto reply = cluster.run(cluster.acceptors[index]->prepare(promise, cluster.soon()));
    REQUIRE(reply->promised);
  }
  const auto snapshot = cluster.read(kKey);
  REQUIRE(snapshot);
  CHECK(text_of(*snapshot) == "half");
  CHECK(snapshot->ballot > promise->ballot);
  CHECK(snapshot->op_id() == OpId{1, 1});
  CHECK(holders(cluster, snapshot->ballot) >= 3);
}

TEST_CASE("a row of an older epoch is not sent again but settled by a write-back") {
  RegisterCluster cluster;
  place_half(cluster, {10, 1, 1});
  for (const std::size_t index : {3, 4}) {
    cluster.acceptors[index]->rows[kKey.key].accepted.epoch = Epoch{0};
  }
  const auto snapshot = cluster.read(kKey);
  REQUIRE(snapshot);
  CHECK(text_of(*snapshot) == "half");
  CHECK(snapshot->ballot != Ballot{10, 1, 1});
}

TEST_CASE("two replicas down: reads go on; three down: no quorum, never not-found") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kKey, "one"));
  cluster.settle_down();
  cluster.acceptors[0]->state = VolumeStatus::State::closed;
  cluster.acceptors[1]->state = VolumeStatus::State::closed;
  CHECK(text_of(cluster.read(kKey).value()) == "one");
  cluster.acceptors[2]->state = VolumeStatus::State::closed;
  CHECK(cluster.read(kKey).error().code == Errc::unavailable);
  CHECK(cluster.read(object_register("other")).error().code == Errc::unavailable);
}

TEST_CASE("a replica whose row is unreadable says nothing, even if it is asked for the record") {
  for (std::size_t bad = 0; bad < 5; ++bad) {
    RegisterCluster cluster;
    REQUIRE(cluster.put(kKey, "one"));
    cluster.settle_down();
    cluster.acceptors[bad]->rows[kKey.key].unreadable = true;
    CHECK(text_of(cluster.read(kKey).value()) == "one");
  }
}

TEST_CASE("a replica that never answers costs the patience, not the deadline") {
  int asked_of_all = 0;
  for (std::size_t silent = 0; silent < 5; ++silent) {
    RegisterCluster cluster;
    REQUIRE(cluster.put(kKey, "one"));
    cluster.settle_down();
    bool asked = false;
    cluster.acceptors[silent]->fate = [&asked](VolumeId, RegisterCall, const RegisterKey&) {
      asked = true;
      Fate fate;
      fate.lose_request = true;
      return fate;
    };
    const BootTime begin = cluster.clock.boot();
    CHECK(text_of(cluster.read(kKey).value()) == "one");
    CHECK(cluster.clock.boot() - begin <= Duration(limits::kReadPatience));
    // After two failures it is suspect, and its answer is not waited for at all.
    cluster.settle_down();
    CHECK(text_of(cluster.read(kKey).value()) == "one");
    cluster.settle_down();
    CHECK(cluster.processes[0].membership->suspect(cluster.acceptors[silent]->id()) == asked);
    asked_of_all += asked ? 1 : 0;
    const BootTime again = cluster.clock.boot();
    CHECK(text_of(cluster.read(kKey).value()) == "one");
    CHECK(cluster.clock.boot() - again <= Duration(1000));
  }
  CHECK(asked_of_all == 3);
}

TEST_CASE("suspects that answer again are waited for where others fail") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kKey, "one"));
  cluster.settle_down();
  for (const std::size_t failing : {0, 1}) {
    cluster.acceptors[failing]->rows[kKey.key].unreadable = true;
  }
  for (const std::size_t suspect : {2, 3}) {
    cluster.processes[0].membership->report_stalled(cluster.acceptors[suspect]->id());
    cluster.acceptors[suspect]->fate = [](VolumeId, RegisterCall, const RegisterKey&) {
      Fate fate;
      fate.request_delay = std::chrono::milliseconds(50);
      return fate;
    };
  }
  const auto read = cluster.read(kKey);
  REQUIRE(read);
  CHECK(text_of(*read) == "one");
}

TEST_CASE("a fenced bucket answers stale_bucket, to background rounds it opens") {
  RegisterCluster cluster;
  REQUIRE(cluster.put(kKey, "one"));
  cluster.settle_down();
  for (const auto& acceptor : cluster.acceptors) acceptor->fences[kKey.key.bucket] = kKey.number;
  CHECK(cluster.read(kKey).error().code == Errc::stale_bucket);
  CHECK(cluster.put(kKey, "two").error().code == Errc::stale_bucket);
  CHECK(
      cluster.run(cluster.proposer().write_back(kKey, WriteBack::if_needed, false, cluster.soon()))
          .error()
          .code == Errc::stale_bucket);
  const auto settled =
      cluster.run(cluster.proposer().write_back(kKey, WriteBack::if_needed, true, cluster.soon()));
  REQUIRE(settled);
  CHECK(text_of(*settled) == "one");
}

}  // namespace penstock
