#include "server/index/bucket_catalog.h"

#include <doctest/doctest.h>

#include <boost/asio/detached.hpp>
#include <functional>

#include "server/records/object_record.h"
#include "tests/fake/fake_cluster.h"
#include "tests/fake/register_cluster.h"

namespace penstock {
namespace {

// Which calls reach which of three acceptors.
using Passes = std::function<bool(std::size_t acceptor, RegisterCall call)>;
void let_pass(RegisterCluster& cluster, const Passes& passes) {
  for (std::size_t i = 0; i < cluster.acceptors.size(); ++i) {
    cluster.acceptors[i]->fate = [i, passes](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      fate.lose_request = !passes(i, call);
      return fate;
    };
  }
}

}  // namespace

TEST_CASE("a process remembers so many buckets at most, and always the one asked for last") {
  FakeCluster cluster;
  cluster.make_bucket("first");
  const RegisterKey first = BucketCatalog::register_of("first").key;
  const auto name = [](std::size_t i) { return "bucket-" + std::to_string(i); };
  for (const auto& volume : cluster.volumes) {
    auto& rows = volume->acceptor.rows;
    const auto found = rows.find(first);
    if (found == rows.end()) continue;
    FakeAcceptor::Row row = found->second;
    const RegisterValue value = decode_value(first, *row.accepted.value).value();
    for (std::size_t i = 0; i < limits::kBucketCacheEntries; ++i) {
      const RegisterKey key = BucketCatalog::register_of(name(i)).key;
      row.accepted.value = std::make_shared<const std::string>(encode(key, value));
      rows[key] = row;
    }
    volume->acceptor.fate = [](VolumeId, RegisterCall, const RegisterKey&) {
      Fate at_once;  // so that nothing grows old here
      at_once.request_delay = at_once.reply_delay = Duration{};
      return at_once;
    };
  }
  Index& index = cluster.gateway->index;
  const BootTime before = cluster.clock.boot();
  REQUIRE(cluster.run(index.bucket("first", cluster.soon())).has_value());
  for (std::size_t i = 0; i < limits::kBucketCacheEntries; ++i) {
    if (i == limits::kBucketCacheEntries - 1) CHECK(index.cached_bucket("first") != nullptr);
    REQUIRE(cluster.run(index.bucket(name(i), cluster.soon())).has_value());
    REQUIRE(index.cached_bucket(name(i)) != nullptr);
  }
  REQUIRE(cluster.clock.boot() - before < Duration(limits::kBucketCacheAge));
  CHECK(index.cached_bucket("first") == nullptr);
}

// The create found a bucket of somebody else that nobody had chosen, and then its own, which was.
TEST_CASE("whoever made a bucket is told so, whatever was seen on the way") {
  RegisterCluster cluster(3, 2);
  BucketCatalog catalog(*cluster.processes[0].membership, cluster.proposer(), cluster.clock,
                        cluster.random);
  const RegisterRef ref = BucketCatalog::register_of("bucket");
  const auto accepted = [&](std::size_t i) { return cluster.acceptors[i]->counters.accepts; };
  const auto reached = [&](const std::function<bool()>& done) {
    return run_until(cluster.io, cluster.clock, done);
  };
  std::optional<Result<BucketCatalog::Created>> created;
  const auto create = [&]() -> Awaitable<void> {
    auto record = catalog.new_record("me", "eu");
    const Duration none{};
    created = co_await catalog.create("bucket", std::move(record), none, cluster.soon());
  };
  let_pass(cluster,
           [](std::size_t i, RegisterCall call) { return call != RegisterCall::accept || i == 0; });
  boost::asio::co_spawn(cluster.io, create(), boost::asio::detached);
  REQUIRE(reached([&] { return accepted(0) == 1; }));
  RegisterValue other = to_value(catalog.new_record("you", "eu"));
  other.op_id = cluster.proposer(1).new_op_id();
  other.chain.push_back(OpId{});
  FakeAcceptor::Row& row = cluster.acceptors[2]->rows[ref.key];
  row.accepted = cluster.acceptors[0]->rows[ref.key].accepted;
  row.accepted.ballot.counter += 1;
  row.accepted.value = std::make_shared<const std::string>(encode(ref.key, other));
  let_pass(cluster, [](std::size_t i, RegisterCall call) {
    return i == 2 || (i == 1 && call != RegisterCall::accept);
  });
  // It settles the other one, and has no majority.
  REQUIRE(reached([&] { return accepted(2) == 1; }));
  let_pass(cluster, [](std::size_t i, RegisterCall) { return i != 2; });
  const auto seen = cluster.read(ref, ReadWant::value, 1);
  REQUIRE(seen);
  REQUIRE(seen->live());
  CHECK(bucket_record(*seen->value)->owner == "me");
  REQUIRE_FALSE(created.has_value());
  let_pass(cluster, [](std::size_t, RegisterCall) { return true; });
  REQUIRE(reached([&] { return created.has_value(); }));
  REQUIRE(created->has_value());
  CHECK_FALSE(created->value().existed);
  CHECK(created->value().bucket->record.id == bucket_record(*seen->value)->id);
}

}  // namespace penstock
