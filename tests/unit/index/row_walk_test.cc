#include "server/index/row_walk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

// The first `count` keys behind `stem` that lie in `partition`.
std::vector<std::string> keys_in(BucketId bucket, std::uint32_t partition, const std::string& stem,
                                 std::size_t count, std::uint32_t partitions = 2) {
  std::vector<std::string> keys;
  for (std::size_t n = 1'000'000; keys.size() < count; ++n) {
    std::string key = stem + std::to_string(n);
    if (partition_of(bucket, key, partitions) == partition) keys.push_back(std::move(key));
  }
  return keys;
}

// All volumes hold `value` under these keys.
void hold(FakeCluster& cluster, const Bucket& bucket, const std::vector<std::string>& keys,
          RegisterValue value) {
  value.chain.push_back(OpId{});
  FakeAcceptor::Row row;
  row.accepted.ballot = Ballot{1, 1, 1};
  row.accepted.value = std::make_shared<const std::string>(encode(RegisterKey{}, value));
  for (const auto& volume : cluster.volumes) {
    for (const std::string& key : keys) {
      volume->acceptor.rows[Index::object(bucket, key).key] = row;
    }
  }
}

// Page by page, but no more than ten.
std::vector<std::string> listed_keys(FakeCluster& cluster, std::shared_ptr<const Bucket> bucket,
                                     int& pages) {
  std::vector<std::string> listed;
  ListRequest request;
  pages = 0;
  for (bool more = true; more && pages < 10; ++pages) {
    const auto page = cluster.run(cluster.gateway->index.list(bucket, request, cluster.soon()));
    REQUIRE(page);
    for (const ListEntry& entry : page->entries) listed.push_back(entry.key);
    request.after = page->next_after;
    more = page->truncated;
  }
  return listed;
}
}  // namespace

TEST_CASE("a walk that is cut in two groups goes on from where the one behind stands") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 2);
  const BucketId id = bucket->record.id;
  REQUIRE(groups_of_bucket(*cluster.map, id, 2).size() == 2);
  // Deleted keys past the bound of a page: one group is among "a...", the other among "b...".
  std::vector<std::string> dead = keys_in(id, 0, "a", limits::kScanRowsMax * 2 / 3);
  const auto others = keys_in(id, 1, "b", limits::kScanRowsMax * 2 / 3);
  dead.insert(dead.end(), others.begin(), others.end());
  hold(cluster, *bucket, dead, tombstone_value());
  const std::string live = keys_in(id, 0, "a~", 1).front();
  REQUIRE(cluster.run(cluster.gateway->objects.put(*bucket, live, ObjectRecord{}, nullptr,
                                                   Condition{}, cluster.soon())));

  int pages = 0;
  const auto listed = listed_keys(cluster, bucket, pages);
  CHECK(pages > 1);
  CHECK(listed == std::vector<std::string>{live});
}

TEST_CASE("a walk keeps the rows of one group while it asks another one for more") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 2);
  const BucketId id = bucket->record.id;
  // More than one scan of each group, in a page that ends among the keys of the second one.
  constexpr std::size_t kKeys = 700;
  std::vector<std::string> keys = keys_in(id, 0, "a", kKeys);
  const auto behind = keys_in(id, 1, "b", kKeys);
  keys.insert(keys.end(), behind.begin(), behind.end());
  hold(cluster, *bucket, keys, to_value(ObjectRecord{}, 0));
  ListRequest request;
  request.max_keys = 1000;
  const auto page = cluster.run(cluster.gateway->index.list(bucket, request, cluster.soon()));
  REQUIRE(page);
  CHECK(page->truncated);
  std::vector<std::string> listed;
  for (const ListEntry& entry : page->entries) listed.push_back(entry.key);
  keys.resize(request.max_keys);
  CHECK(listed == keys);
}

TEST_CASE("a key that a list has to decide is read as its bucket says") {
  FakeCluster cluster;
  constexpr std::uint32_t kPartitions = 8;
  const auto bucket = cluster.make_bucket("b", kPartitions);
  const BucketId id = bucket->record.id;
  std::string key;  // not of the first partition
  for (int n = 0; key.empty() || partition_of(id, key, kPartitions) == 0; ++n) {
    key = "key" + std::to_string(n);
  }
  REQUIRE(cluster.run(cluster.gateway->objects.put(*bucket, key, ObjectRecord{}, nullptr,
                                                   Condition{}, cluster.soon())));
  cluster.settle_down();
  const RegisterKey row = Index::object(*bucket, key).key;
  const GroupId group = group_of_key(*cluster.map, id, kPartitions, key).group;
  const auto volumes = replicas_of(*cluster.map, group).value().volumes;
  REQUIRE(volumes.size() == 5);
  const auto acceptor = [&](std::size_t replica) -> FakeAcceptor& {
    return cluster.volumes[volumes[replica].value - 1]->acceptor;
  };
  // Two have it, two lack it, one is away; and the bucket was emptied once before.
  for (const std::size_t lacking : {2, 3, 4}) acceptor(lacking).rows.erase(row);
  acceptor(4).state = VolumeStatus::State::closed;
  for (const auto& volume : cluster.volumes) {
    volume->acceptor.fences[id] = BucketNumber{bucket->record.number.value - 1};
  }
  const auto page = cluster.run(cluster.gateway->index.list(bucket, ListRequest{}, cluster.soon()));
  REQUIRE(page);
  REQUIRE(page->entries.size() == 1);
  CHECK(page->entries.front().key == key);
  cluster.settle_down();
  for (const std::size_t told : {2, 3}) {
    REQUIRE(acceptor(told).rows.contains(row));
    CHECK(acceptor(told).rows.at(row).partitions == kPartitions);
  }
}

TEST_CASE("a walk that is cut does not go back to a group that has nothing left") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 2);
  const BucketId id = bucket->record.id;
  hold(cluster, *bucket, keys_in(id, 0, "a", 10), tombstone_value());
  hold(cluster, *bucket, keys_in(id, 1, "b", limits::kScanRowsMax + 9'000), tombstone_value());
  const auto live = keys_in(id, 1, "c", 1);
  hold(cluster, *bucket, live, to_value(ObjectRecord{}, 0));
  int pages = 0;
  CHECK(listed_keys(cluster, bucket, pages) == live);
  CHECK(pages == 2);
}

TEST_CASE("no key is handed out before those that a group further behind may still have") {
  // One group has deleted keys, then the first live one; another one has deleted keys behind the
  // live key of the third.
  std::vector<std::size_t> roles = {0, 1, 2};
  do {
    CAPTURE(roles[0]);
    CAPTURE(roles[1]);
    FakeCluster cluster;
    constexpr std::uint32_t kPartitions = 8;
    const auto bucket = cluster.make_bucket("b", kPartitions);
    const BucketId id = bucket->record.id;
    std::map<GroupId, std::uint32_t> partition_of_group;
    for (std::uint32_t partition = 0; partition < kPartitions; ++partition) {
      partition_of_group.emplace(group_of(id, partition, 4), partition);
    }
    REQUIRE(partition_of_group.size() >= 3);
    std::vector<std::uint32_t> partitions;
    for (const auto& [group, partition] : partition_of_group) partitions.push_back(partition);
    const auto keys = [&](std::size_t role, const std::string& stem, std::size_t count) {
      return keys_in(id, partitions[roles[role]], stem, count, kPartitions);
    };
    hold(cluster, *bucket, keys(0, "a", 600), tombstone_value());
    hold(cluster, *bucket, keys(1, "c", 600), tombstone_value());
    std::vector<std::string> live = keys(0, "b", 1);
    live.push_back(keys(2, "bb", 1).front());
    hold(cluster, *bucket, live, to_value(ObjectRecord{}, 0));
    int pages = 0;
    CHECK(listed_keys(cluster, bucket, pages) == live);
  } while (std::next_permutation(roles.begin(), roles.end()));
}

TEST_CASE("a key that the replica asked for summaries lacks is read where it is") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  ObjectRecord record;
  record.etag = "e1";
  REQUIRE(cluster.run(
      cluster.gateway->objects.put(*bucket, "key", record, nullptr, Condition{}, cluster.soon())));
  cluster.settle_down();
  const RegisterKey row = Index::object(*bucket, "key").key;
  const std::uint32_t partitions = bucket->record.partitions;
  const GroupId group = group_of_key(*cluster.map, bucket->record.id, partitions, "key").group;
  const auto volumes = replicas_of(*cluster.map, group).value().volumes;
  const auto volume = [&](VolumeId id) -> FakeVolume& { return *cluster.volumes[id.value - 1]; };
  for (const VolumeId lacking : volumes) {
    for (const VolumeId failing : volumes) {
      if (failing == lacking) continue;
      CAPTURE(lacking.value);
      CAPTURE(failing.value);
      const FakeAcceptor::Row kept = volume(lacking).acceptor.rows.at(row);
      volume(lacking).acceptor.rows.erase(row);
      volume(failing).fail_scans = true;  // so that all are asked: a majority of them agrees
      const auto page =
          cluster.run(cluster.gateway->index.list(bucket, ListRequest{}, cluster.soon()));
      REQUIRE(page);
      REQUIRE(page->entries.size() == 1);
      CHECK(page->entries.front().key == "key");
      CHECK(page->entries.front().summary.etag == "e1");
      volume(failing).fail_scans = false;
      volume(lacking).acceptor.rows[row] = kept;
    }
  }
}

}  // namespace penstock
