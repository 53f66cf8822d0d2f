#include "server/index/bucket_delete.h"

#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "tests/fake/fake_cluster.h"

namespace penstock {

TEST_CASE("a deleter that was overtaken succeeds though the name is a new bucket's by then") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  // The first deleter has fenced the bucket; then its round on the bucket's register hangs.
  bool fenced = false;
  std::size_t lost = 0;
  const std::size_t to_lose = cluster.map->groups[0].replicas.size();
  for (const auto& volume : cluster.volumes) {
    volume->before_scan = [&](const ScanRequest& request) {
      fenced = fenced || request.fence.value != 0;
    };
    volume->acceptor.fate = [&](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      fate.lose_request = fenced && call == RegisterCall::prepare && lost < to_lose;
      lost += fate.lose_request ? 1 : 0;
      return fate;
    };
  }
  std::optional<Result<>> outcome;
  auto ended = [&](std::exception_ptr, Result<> result) { outcome = std::move(result); };
  boost::asio::co_spawn(cluster.io,
                        cluster.another_gateway().index.delete_bucket("b", cluster.soon()),
                        std::move(ended));
  REQUIRE(run_until(cluster.io, cluster.clock, [&] { return lost == to_lose; }));

  Index& index = cluster.gateway->index;
  REQUIRE(cluster.run(index.delete_bucket("b", cluster.soon())));
  const auto again = cluster.make_bucket("b");
  REQUIRE(again->record.id != bucket->record.id);
  CHECK(!outcome);
  cluster.settle_down();
  REQUIRE(outcome);
  CHECK(outcome->has_value());
  CHECK(cluster.run(index.bucket("b", cluster.soon())).value()->record.id == again->record.id);
}

TEST_CASE("a deleter whose bucket another one has opened again says that it is not empty") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  bool opened = false;
  for (auto& volume : cluster.volumes) {
    volume->before_scan = [&](const ScanRequest& request) {
      if (request.fence.value == 0 || std::exchange(opened, true)) return;
      cluster.move_bucket(*bucket, BucketState::open, BucketNumber{3});
    };
  }
  Index& index = cluster.gateway->index;
  const auto deleted = cluster.run(index.delete_bucket("b", cluster.soon()));
  REQUIRE(opened);
  REQUIRE_FALSE(deleted.has_value());
  CHECK(deleted.error().code == Errc::precondition);
  const auto now = cluster.run(index.bucket("b", cluster.soon()));
  REQUIRE(now.has_value());
  CHECK((*now)->record.number == BucketNumber{3});
}

namespace {

// Runs `change` once the first deleter has listed the bucket, before it moves it to `deleting`.
void after_first_list(FakeCluster& cluster, std::function<void()> change) {
  const auto once = std::make_shared<std::function<void()>>(std::move(change));
  for (const auto& volume : cluster.volumes) {
    volume->before_scan = [once](const ScanRequest& request) {
      if (request.fence.value != 0 || !*once) return;
      const auto run = std::exchange(*once, nullptr);
      run();
    };
  }
}

}  // namespace

TEST_CASE("a deleter that was overtaken after its list goes on from where the bucket stands") {
  enum class Now { gone, another, deleting, open };
  for (const Now now : {Now::gone, Now::another, Now::deleting, Now::open}) {
    CAPTURE(static_cast<int>(now));
    FakeCluster cluster;
    const auto bucket = cluster.make_bucket("b");
    bool changed = false;
    after_first_list(cluster, [&] {
      changed = true;
      BucketRecord next = bucket->record;
      if (now == Now::another) next.id = BucketId{next.id.value + 1};
      if (now == Now::deleting) next.state = BucketState::deleting;
      if (now == Now::deleting) next.number = BucketNumber{2};
      if (now == Now::open) next.number = BucketNumber{3};
      RegisterValue value = now == Now::gone ? tombstone_value() : to_value(next);
      value.op_id = OpId{9, 9};
      value.chain.push_back(OpId{});
      cluster.overwrite(BucketCatalog::register_of("b").key, value);
    });
    Index& index = cluster.gateway->index;
    const auto deleted = cluster.run(index.delete_bucket("b", cluster.soon()));
    REQUIRE(changed);
    REQUIRE(deleted.has_value() == (now != Now::open));
    if (now == Now::open) CHECK(deleted.error().code == Errc::precondition);
    const auto left = cluster.run(index.bucket("b", cluster.soon()));
    REQUIRE(left.has_value() == (now == Now::another || now == Now::open));
    if (now == Now::another) CHECK((*left)->record.id != bucket->record.id);
  }
}

TEST_CASE("a deleter that cannot reach the bucket's register does not call it full") {
  FakeCluster cluster;
  cluster.make_bucket("b");
  after_first_list(cluster, [&] {
    for (const auto& volume : cluster.volumes) {
      volume->acceptor.fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
        Fate fate;
        fate.lose_request = call == RegisterCall::prepare;
        return fate;
      };
    }
  });
  Index& index = cluster.gateway->index;
  const auto deleted = cluster.run(index.delete_bucket("b", cluster.soon()));
  REQUIRE_FALSE(deleted.has_value());
  CHECK(deleted.error().code == Errc::unavailable);
  for (const auto& volume : cluster.volumes) volume->acceptor.fate = nullptr;
  CHECK(cluster.run(index.delete_bucket("b", cluster.soon())).has_value());
}

TEST_CASE("to roll a bucket forward that is not empty is a success: it is open again") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  REQUIRE(cluster.run(cluster.gateway->objects.put(*bucket, "key", ObjectRecord{}, nullptr,
                                                   Condition{}, cluster.soon())));
  cluster.move_bucket(*bucket, BucketState::deleting, BucketNumber{2});
  Index& index = cluster.gateway->index;
  CHECK(cluster.run(index.roll_bucket_forward("b", cluster.soon())).has_value());
  const auto now = cluster.run(index.bucket("b", cluster.soon()));
  REQUIRE(now.has_value());
  CHECK((*now)->record.number == BucketNumber{3});
  CHECK(cluster.run(index.roll_bucket_forward("no bucket", cluster.soon())).has_value());
}

TEST_CASE("a deleter succeeds whose bucket another one has removed behind its fence") {
  FakeCluster cluster;
  cluster.make_bucket("b");
  bool removed = false;
  for (const auto& volume : cluster.volumes) {
    volume->before_scan = [&](const ScanRequest& request) {
      if (request.fence.value == 0 || std::exchange(removed, true)) return;
      RegisterValue value = tombstone_value();
      value.op_id = OpId{9, 9};
      value.chain.push_back(OpId{});
      cluster.overwrite(BucketCatalog::register_of("b").key, value);
    };
  }
  CHECK(cluster.run(cluster.gateway->index.delete_bucket("b", cluster.soon())).has_value());
  CHECK(removed);
}

TEST_CASE("a bucket is searched for keys in all its groups, before its fence and behind it") {
  constexpr std::uint32_t kParts = 4;
  FakeCluster cluster;
  BucketRecord record = cluster.make_bucket("b")->record;
  record.partitions = kParts;
  RegisterValue value = to_value(record);
  value.op_id = OpId{9, 9};
  value.chain.push_back(OpId{});
  cluster.overwrite(BucketCatalog::register_of("b").key, value);
  std::set<std::tuple<GroupId, std::uint64_t, bool>> searched;
  for (const auto& volume : cluster.volumes) {
    volume->before_scan = [&](const ScanRequest& request) {
      CHECK(request.partition_count == kParts);
      searched.emplace(request.round.group, request.partition_mask, request.fence.value != 0);
    };
  }
  REQUIRE(cluster.run(cluster.gateway->index.delete_bucket("b", cluster.soon())).has_value());
  const auto shares = groups_of_bucket(*cluster.map, record.id, kParts);
  CHECK(shares.size() > 1);
  CHECK(searched.size() == 2 * shares.size());
  for (const GroupShare& share : shares) {
    CHECK(searched.contains({share.group, share.partition_mask, false}));
    CHECK(searched.contains({share.group, share.partition_mask, true}));
  }
}

TEST_CASE("each page of the search behind the fence is fenced: other volumes may answer it") {
  constexpr std::size_t kDeleted = 3 * limits::kScanBatchMax;  // more than one page
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  FakeAcceptor::Row row;
  row.accepted.ballot = Ballot{1, 1, 1};
  RegisterValue value = tombstone_value();
  value.chain.push_back(OpId{});
  row.accepted.value = std::make_shared<const std::string>(encode(RegisterKey{}, value));
  for (const auto& volume : cluster.volumes) {
    for (std::size_t i = 0; i < kDeleted; ++i) {
      volume->acceptor.rows[Index::object(*bucket, "key" + std::to_string(i)).key] = row;
    }
  }
  std::size_t later_pages = 0;
  for (const auto& volume : cluster.volumes) {
    volume->before_scan = [&](const ScanRequest& request) {
      if (!request.round.pass_fence) return;
      later_pages += request.start.empty() ? 0 : 1;
      CHECK(request.fence.value != 0);
    };
  }
  REQUIRE(cluster.run(cluster.gateway->index.delete_bucket("b", cluster.soon())).has_value());
  CHECK(later_pages > 0);
}

TEST_CASE("a bucket that is open is not rolled forward, though it is empty") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  Index& index = cluster.gateway->index;
  REQUIRE(cluster.run(index.roll_bucket_forward("b", cluster.soon())).has_value());
  const auto now = cluster.run(index.bucket("b", cluster.soon()));
  REQUIRE(now.has_value());
  CHECK((*now)->record.number == bucket->record.number);
  const auto page = cluster.run(index.list(*now, ListRequest{}, cluster.soon()));
  CHECK(page.has_value());  // no fence keeps its requests out
}

}  // namespace penstock
