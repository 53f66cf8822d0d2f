#include "server/index/list_page.h"

#include <doctest/doctest.h>

#include <set>

#include "server/membership/replica_set.h"
#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

constexpr std::uint32_t kPartitions = 4;

GroupId group_of_name(const FakeCluster& cluster, const Bucket& bucket, const std::string& key) {
  return group_of_key(*cluster.map, bucket.record.id, kPartitions, key).group;
}

void put_live(FakeCluster& cluster, const Bucket& bucket, const std::string& key) {
  ObjectRecord record;
  record.etag = "e";
  auto stored = cluster.run(
      cluster.gateway->objects.put(bucket, key, record, nullptr, Condition{}, cluster.soon()));
  REQUIRE(stored.has_value());
  cluster.settle_down();
}

// Gives the group of `dead`, a deleted key, more rows like it than a page looks at.
void spread_tombstones(FakeCluster& cluster, const Bucket& bucket, const std::string& dead) {
  const GroupId group = group_of_name(cluster, bucket, dead);
  std::vector<RegisterKey> keys;
  for (std::size_t i = 0; keys.size() < limits::kScanRowsMax + 10'000; ++i) {
    RegisterKey key = Index::object(bucket, "b/k" + std::to_string(1'000'000 + i)).key;
    if (group_of_name(cluster, bucket, key.key) == group) keys.push_back(std::move(key));
  }
  for (auto& volume : cluster.volumes) {
    auto& rows = volume->acceptor.rows;
    const auto found = rows.find(Index::object(bucket, dead).key);
    if (found == rows.end()) continue;
    const FakeAcceptor::Row row = found->second;
    for (const RegisterKey& key : keys) rows[key] = row;
  }
}

}  // namespace

TEST_CASE("A page that is cut inside a common prefix which it shows goes on behind the prefix") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("bucket", kPartitions);
  put_live(cluster, *bucket, "b/1");
  std::string dead;  // in another group than the prefix's witness
  for (int i = 0; dead.empty(); ++i) {
    const std::string key = "b/d" + std::to_string(i);
    const GroupId witness = group_of_name(cluster, *bucket, "b/1");
    if (group_of_name(cluster, *bucket, key) != witness) dead = key;
  }
  put_live(cluster, *bucket, dead);
  REQUIRE(cluster.run(cluster.gateway->objects.remove(*bucket, dead, {}, cluster.soon())));
  cluster.settle_down();
  spread_tombstones(cluster, *bucket, dead);
  put_live(cluster, *bucket, "b/z");
  put_live(cluster, *bucket, "c");

  ListRequest request;
  request.delimiter = "/";
  std::vector<std::string> listed;
  int pages = 0;
  for (bool more = true; more && pages < 10; ++pages) {
    const auto page = cluster.run(cluster.gateway->index.list(bucket, request, cluster.soon()));
    REQUIRE(page.has_value());
    for (const ListEntry& entry : page->entries) listed.push_back(entry.key);
    CHECK(page->next_after_is_prefix == is_common_prefix(page->next_after, "", "/"));
    request.after = page->next_after;
    request.after_is_prefix = page->next_after_is_prefix;
    more = page->truncated;
  }
  CHECK(pages > 1);
  CHECK(listed == std::vector<std::string>{"b/", "c"});
}

TEST_CASE("A list begins behind its marker, of a prefix behind all its keys") {
  const std::string last(limits::kKeyBytesMax, '\xff');  // no key sorts behind it
  struct Row {
    std::string prefix, after;
    bool after_is_prefix;
    std::string start;
  };
  for (const Row& row : {Row{"", "", false, ""}, Row{"p", "", false, "p"},
                         Row{"p", "a", false, "p"}, Row{"", "a", false, std::string("a\0", 2)},
                         Row{"", "a/", true, "a0"}, Row{"", "a\xff", true, "b"}}) {
    CAPTURE(row.after);
    CHECK(list_start(row.prefix, row.after, row.after_is_prefix) == row.start);
  }
  CHECK(list_start("", "\xff", true) > last);
  CHECK(list_start("", "\xff\xff", true) > last);
}

TEST_CASE("A list of parts holds no part of a key that goes on where the upload-id does") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("bucket", 1);
  Multipart& multipart = cluster.gateway->multipart;
  const auto begin = [&](const std::string& key) {
    return cluster.run(multipart.create(*bucket, key, UploadRecord{}, cluster.soon())).value();
  };
  const auto put_part = [&](const std::string& key, const std::string& id, std::uint16_t number) {
    PartInfo part;
    part.number = number;
    part.size_bytes = 1;
    REQUIRE(cluster.run(multipart.put_part(*bucket, key, id, part, cluster.soon())));
  };
  const std::string id = begin("key");
  put_part("key", id, 1);
  const std::string longer = std::string("key\0", 4) + id + "more";
  put_part(longer, begin(longer), 7);
  cluster.settle_down();
  const auto parts =
      cluster.run(cluster.gateway->index.list_parts(bucket, "key", id, cluster.soon()));
  REQUIRE(parts.has_value());
  REQUIRE(parts->size() == 1);
  CHECK(parts->front().number == 1);
}

TEST_CASE("A delimiter within the list's own prefix makes no common prefix") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("bucket", 1);
  for (const char* key : {"d/1", "d/2", "d/3/x", "d/3/y", "d/4", "e"}) {
    put_live(cluster, *bucket, key);
  }
  ListRequest request;
  request.prefix = "d/";
  request.delimiter = "/";
  const auto page = cluster.run(cluster.gateway->index.list(bucket, request, cluster.soon()));
  REQUIRE(page.has_value());
  std::vector<std::string> listed;
  for (const ListEntry& entry : page->entries) listed.push_back(entry.key);
  CHECK(listed == std::vector<std::string>{"d/1", "d/2", "d/3/", "d/4"});
}

TEST_CASE("The parts of an upload are found in every group that a key may lie in") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("bucket", kPartitions);
  Multipart& multipart = cluster.gateway->multipart;
  std::set<GroupId> groups;
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    CAPTURE(key);
    const GroupId group = group_of_name(cluster, *bucket, key);
    groups.insert(group);
    for (const auto& volume : cluster.volumes) {
      volume->before_scan = [group](const ScanRequest& request) {
        CHECK(request.round.group == group);
        CHECK(request.partition_count == kPartitions);
      };
    }
    auto begun = cluster.run(multipart.create(*bucket, key, UploadRecord{}, cluster.soon()));
    const std::string id = begun.value();
    for (const std::uint16_t number : {3, 256}) {
      PartInfo part;
      part.number = number;
      part.size_bytes = 1;
      REQUIRE(cluster.run(multipart.put_part(*bucket, key, id, part, cluster.soon())));
    }
    const auto parts =
        cluster.run(cluster.gateway->index.list_parts(bucket, key, id, cluster.soon()));
    REQUIRE(parts.has_value());
    REQUIRE(parts->size() == 2);
    CHECK(parts->front().number == 3);
    CHECK(parts->back().number == 256);
  }
  CHECK(groups.size() > 1);
}

}  // namespace penstock
