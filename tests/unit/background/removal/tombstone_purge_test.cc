#include "server/background/removal/tombstone_purge.h"

#include <doctest/doctest.h>

#include "tests/fake/clock_ahead.h"
#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

struct PurgeFixture : BackgroundWorld {
  TombstonePurge purge{context};
  const RegisterKey key = Index::object(*bucket, "key").key;

  // "key" was put and deleted.
  PurgeFixture() {
    put();
    remove();
  }
  void run() { pass(purge); }
  void wait(Duration time) { cluster.clock.advance(time); }
  // How many replicas have a row of the register.
  std::size_t rows(const RegisterKey& of) {
    std::size_t count = 0;
    for (const auto& volume : cluster.volumes) count += volume->acceptor.rows.count(of);
    return count;
  }
  std::size_t rows() { return rows(key); }
  int accepts() {
    int sum = 0;
    for (const auto& volume : cluster.volumes) sum += volume->acceptor.counters.accepts;
    return sum;
  }
  FakeAcceptor& replica(std::size_t index) { return volume(replicas()[index]).acceptor; }
  std::uint64_t purged() { return context.board->read().tombstones_purged; }
};

}  // namespace

TEST_CASE("a tombstone goes ten minutes after all replicas acked it, not before") {
  PurgeFixture f;
  f.run();
  CHECK(f.rows() == 5);
  CHECK(f.context.board->read().tombstones_waiting == 1);
  const Ballot mark = f.replica(0).rows.at(f.key).accepted.ballot;
  for (std::size_t i = 1; i < 5; ++i) CHECK(f.replica(i).rows.at(f.key).accepted.ballot == mark);
  f.wait(limits::kTombstoneWait - std::chrono::seconds(10));
  f.run();
  CHECK(f.rows() == 5);
  CHECK(f.replica(0).horizon == 0);
  f.wait(std::chrono::seconds(20));
  f.run();
  CHECK(f.rows() == 0);
  for (std::size_t i = 0; i < 5; ++i) CHECK(f.replica(i).horizon == mark.counter);
  CHECK(f.purged() == 1);
  f.run();
  CHECK(f.context.board->read().tombstones_waiting == 0);
}

TEST_CASE("a live row is not touched") {
  PurgeFixture f;
  f.put("other");
  const int before = f.accepts();
  f.wait(limits::kTombstoneWait);
  f.run();
  CHECK(f.accepts() == before + 5);  // the mark of the tombstone
  CHECK(f.rows(Index::object(*f.bucket, "other").key) == 5);
}

TEST_CASE("without one replica nothing is marked; it comes back, and the purge goes on") {
  PurgeFixture f;
  f.replica(3).state = VolumeStatus::State::closed;
  f.run();
  f.wait(2 * Duration(limits::kTombstoneWait));
  f.run();
  CHECK(f.rows() == 5);
  f.replica(3).state = VolumeStatus::State::open;
  f.run();
  f.wait(2 * Duration(limits::kTombstoneWait));
  f.run();
  CHECK(f.rows() == 0);
}

TEST_CASE("a replica that refuses to ack keeps the tombstone unmarked") {
  PurgeFixture f;
  const VolumeId deaf = f.replicas()[4];
  f.volume(deaf).acceptor.fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
    Fate fate;
    fate.lose_request = call == RegisterCall::accept;
    return fate;
  };
  f.run();
  f.wait(2 * Duration(limits::kTombstoneWait));
  f.run();
  CHECK(f.rows() == 5);
  CHECK(f.replica(0).horizon == 0);
}

TEST_CASE("a drop is asked until all have answered, and never becomes a round again") {
  PurgeFixture f;
  f.run();
  f.replica(2).state = VolumeStatus::State::closed;
  f.wait(2 * Duration(limits::kTombstoneWait));
  const int before = f.accepts();
  f.run();
  f.run();
  CHECK(f.rows() == 1);
  CHECK(f.purged() == 0);
  f.replica(2).state = VolumeStatus::State::open;
  f.run();
  CHECK(f.rows() == 0);
  CHECK(f.purged() == 1);
  CHECK(f.accepts() == before);
}

TEST_CASE("a drop that meets another ballot has purged nothing") {
  PurgeFixture f;
  f.run();
  TombstonePurge other(f.context);
  f.pass(other);  // marks it anew
  f.wait(limits::kTombstoneWait + std::chrono::seconds(10));
  f.run();  // and marks it once more
  CHECK(f.rows() == 5);
  CHECK(f.purged() == 0);
  f.wait(limits::kTombstoneWait + std::chrono::seconds(10));
  f.run();
  CHECK(f.rows() == 0);
  CHECK(f.purged() == 1);
}

// Two processes, each with one volume of the group.
TEST_CASE("a later volume whose wall clock is hours ahead leaves alone what the first one purges") {
  PurgeFixture f;
  ClockAhead ahead(f.cluster.clock, std::chrono::hours(5));
  BackgroundContext later{f.context.membership, f.context.proposer, f.context.index,
                          f.context.blobs,      f.context.objects,  ahead,
                          {f.replicas()[1]},    f.context.options};
  f.context.local = {f.replicas()[0]};
  TombstonePurge first(f.context), second(later);
  f.pass(first);
  const Ballot mark = f.replica(0).rows.at(f.key).accepted.ballot;
  for (int i = 0; i < 3; ++i) {
    f.pass(second);
    CHECK(f.replica(0).rows.at(f.key).accepted.ballot == mark);
    f.wait(limits::kTombstoneWait / 4);
  }
  f.wait(limits::kTombstoneWait);
  f.pass(first);
  CHECK(f.rows() == 0);
  CHECK(f.purged() == 1);
}

TEST_CASE("a later volume takes over what is left alone, by its boot clock") {
  PurgeFixture f;
  f.context.local = {f.replicas()[1]};
  TombstonePurge later(f.context);
  f.pass(later);
  const Ballot before = f.replica(0).rows.at(f.key).accepted.ballot;
  f.wait(std::chrono::minutes(30));
  f.pass(later);
  CHECK(f.replica(0).rows.at(f.key).accepted.ballot == before);
  f.wait(std::chrono::minutes(30));
  f.pass(later);
  CHECK(f.replica(0).rows.at(f.key).accepted.ballot != before);
  f.wait(limits::kTombstoneWait + std::chrono::seconds(10));
  f.pass(later);
  CHECK(f.rows() == 0);
}

TEST_CASE("a process takes over a tombstone that its volumes hold at two ballots") {
  PurgeFixture f;
  for (const std::size_t missed : {0, 3, 4}) f.replica(missed).rows.erase(f.key);
  ++f.replica(2).rows.at(f.key).accepted.ballot.counter;  // of a mark that one replica took
  f.context.local = {f.replicas()[1], f.replicas()[2]};
  TombstonePurge later(f.context);
  for (int i = 0; i < 12; ++i) {
    f.pass(later);
    f.wait(std::chrono::minutes(10));
  }
  CHECK(f.rows() == 0);
}

TEST_CASE("what was written again between mark and drop stays") {
  PurgeFixture f;
  f.run();
  f.put();
  f.wait(2 * Duration(limits::kTombstoneWait));
  f.run();
  CHECK(f.rows() == 5);
  CHECK(f.purged() == 0);
  CHECK(f.cluster.run(f.objects().get(*f.bucket, "key", false, f.cluster.soon())).has_value());
}

TEST_CASE("a mark of another epoch is void") {
  PurgeFixture f;
  f.run();
  for (auto& volume : f.cluster.volumes) ++volume->acceptor.epoch.value;
  f.wait(2 * Duration(limits::kTombstoneWait));
  f.run();
  for (auto& volume : f.cluster.volumes) --volume->acceptor.epoch.value;
  f.run();  // found anew: the wait begins again
  CHECK(f.rows() == 5);
  f.wait(2 * Duration(limits::kTombstoneWait));
  f.run();
  CHECK(f.rows() == 0);
}

TEST_CASE("a purge that was cut short is ended by another process, wherever its tombstones are") {
  for (std::size_t left = 0; left < 5; ++left) {
    CAPTURE(left);
    PurgeFixture f;
    for (std::size_t i = 0; i < 5; ++i) {
      if (i == left) continue;
      f.replica(i).horizon = f.replica(i).rows.at(f.key).accepted.ballot.counter;
      f.replica(i).rows.erase(f.key);
    }
    f.run();
    f.wait(std::chrono::hours(4));  // the last volume's turn as well
    f.run();
    f.wait(2 * Duration(limits::kTombstoneWait));
    f.run();
    CHECK(f.rows() == 0);
  }
}

TEST_CASE("tombstones of buckets, uploads and parts go as well") {
  PurgeFixture f;
  Index& index = f.cluster.gateway->index;
  const auto other = f.cluster.make_bucket("other");
  REQUIRE(f.cluster.run(index.delete_bucket("other", f.cluster.soon())).has_value());
  f.cluster.settle_down();
  Proposer& proposer = f.cluster.gateway->proposer;
  const RegisterRef upload = Index::upload(*f.bucket, "key", std::string(32, 'u'));
  const RegisterRef part = Index::part(*f.bucket, "key", std::string(32, 'u'), 7);
  for (const RegisterRef& ref : {upload, part}) {
    REQUIRE(f.cluster.run(proposer.write_back(ref, WriteBack::complete, true, f.cluster.soon()))
                .has_value());
    f.cluster.settle_down();
    REQUIRE(f.rows(ref.key) == 5);
  }
  f.run();
  f.wait(2 * Duration(limits::kTombstoneWait));
  f.run();
  CHECK(f.rows(upload.key) == 0);
  CHECK(f.rows(part.key) == 0);
  CHECK(f.rows(BucketCatalog::register_of("other").key) == 0);
  CHECK(f.rows(BucketCatalog::register_of("bucket").key) == 5);
  CHECK(f.purged() == 4);
}

TEST_CASE("an update that began before its key was purged does not take absence for its base") {
  PurgeFixture f;
  f.run();
  f.wait(2 * Duration(limits::kTombstoneWait));
  f.run();
  REQUIRE(f.rows() == 0);
  // Ballots up to the mark's are refused for good: a straggler of before brings nothing back.
  auto request = std::make_shared<AcceptRequest>();
  request->key = f.key;
  request->ballot = Ballot{f.replica(0).horizon, 1, 1};
  request->round.epoch = f.replica(0).epoch;
  request->round.bucket_number = BucketNumber{1};
  request->value = std::make_shared<const std::string>();
  auto reply = f.cluster.run(f.replica(0).accept(request, f.cluster.soon()));
  CHECK((!reply || !reply->accepted));
  f.put();  // and what is new goes through
  CHECK(f.rows() == 5);
}

TEST_CASE("tombstones of many pages all go") {
  PurgeFixture f;
  for (const char* name : {"a", "b", "c", "z"}) {
    f.put(name);
    f.remove(name);
  }
  f.context.options.page_rows = 1;
  TombstonePurge purge(f.context);
  f.pass(purge);
  CHECK(f.context.board->read().tombstones_waiting == 5);
  f.wait(limits::kTombstoneWait + std::chrono::seconds(10));
  f.pass(purge);
  CHECK(f.purged() == 5);
  CHECK(f.rows() == 0);
}

}  // namespace penstock
