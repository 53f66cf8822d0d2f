#include "server/index/index.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/fake/fake_cluster.h"

using namespace penstock;

namespace {
using BucketPtr = std::shared_ptr<const Bucket>;

void put(FakeCluster& cluster, const BucketPtr& bucket, const std::string& key,
         const std::string& etag = "e") {
  ObjectRecord record;
  record.etag = etag;
  record.size_bytes = key.size();
  record.modified = cluster.clock.wall();
  auto stored = cluster.run(
      cluster.gateway->objects.put(*bucket, key, record, nullptr, Condition{}, cluster.soon()));
  REQUIRE(stored.has_value());
}

void erase(FakeCluster& cluster, const BucketPtr& bucket, const std::string& key) {
  REQUIRE(cluster.run(cluster.gateway->objects.remove(*bucket, key, Condition{}, cluster.soon()))
              .has_value());
}

// "key" or "prefix/" of each entry; "..." behind a page that is truncated.
std::vector<std::string> names(const ListPage& page) {
  std::vector<std::string> found;
  for (const ListEntry& entry : page.entries) found.push_back(entry.key);
  if (page.truncated) found.push_back("...");
  return found;
}

Result<ListPage> list(FakeCluster& cluster, const BucketPtr& bucket, ListRequest request = {}) {
  return cluster.run(cluster.gateway->index.list(bucket, std::move(request), cluster.soon()));
}

// As a deleter leaves the bucket that dies after its first step.
void leave_deleting(FakeCluster& cluster, const Bucket& bucket) {
  cluster.move_bucket(bucket, BucketState::deleting, BucketNumber{2});
}

using Names = std::vector<std::string>;
}  // namespace

TEST_CASE("A bucket is created once and found again by any gateway") {
  FakeCluster cluster;
  auto& index = cluster.gateway->index;
  CHECK(cluster.run(index.bucket("b", cluster.soon())).error().code == Errc::not_found);
  const WallTime created = cluster.clock.wall();
  auto first = cluster.run(index.create_bucket("b", "me", "eu", cluster.soon()));
  REQUIRE(first.has_value());
  CHECK_FALSE(first->existed);
  CHECK(first->bucket->record.id.value != 0);
  CHECK(first->bucket->record.number == BucketNumber{1});
  CHECK(first->bucket->record.partitions == 1);
  auto& other = cluster.another_gateway();
  auto second = cluster.run(other.index.create_bucket("b", "you", "us", cluster.soon()));
  REQUIRE(second.has_value());
  CHECK(second->existed);
  CHECK(second->bucket->record.owner == "me");
  CHECK(second->bucket->record.region == "eu");
  CHECK(second->bucket->record.created == created);
  CHECK(cluster.run(other.index.bucket("b", cluster.soon())).value()->record.id ==
        first->bucket->record.id);
}

TEST_CASE("A bucket has as many partitions as the map gives to new ones") {
  FakeCluster cluster;
  ClusterMap larger = *cluster.map;
  for (std::uint64_t i = 0; i < 6; ++i) {
    MapVolume added = larger.volumes.front();
    added.id = VolumeId{1'000 + i};
    added.name = "added-" + std::to_string(i);
    larger.volumes.push_back(added);
  }
  ++larger.epoch.value;
  const auto map = std::make_shared<const ClusterMap>(larger);
  REQUIRE(partitions_for_new_bucket(*map) > 1);
  REQUIRE(cluster.gateway->membership.adopt(map).value());
  auto made = cluster.run(cluster.gateway->index.create_bucket("b", "me", "eu", cluster.soon()));
  CHECK(made.value().bucket->record.partitions == partitions_for_new_bucket(*map));
}

TEST_CASE("A positive answer is cached for one second, absence never") {
  FakeCluster cluster;
  auto& index = cluster.gateway->index;
  CHECK(cluster.run(index.bucket("b", cluster.soon())).error().code == Errc::not_found);
  cluster.make_bucket("b");
  CHECK(index.cached_bucket("b") == nullptr);
  REQUIRE(cluster.run(index.bucket("b", cluster.soon())).has_value());
  CHECK(index.cached_bucket("b") != nullptr);
  index.forget_bucket("b");
  CHECK(index.cached_bucket("b") == nullptr);
  REQUIRE(cluster.run(index.bucket("b", cluster.soon())).has_value());
  cluster.clock.advance(std::chrono::seconds(1));
  CHECK(index.cached_bucket("b") == nullptr);
}

TEST_CASE("Buckets are listed by name, of one owner or of all") {
  FakeCluster cluster;
  for (const char* name : {"zoo", "bar", "foo"}) cluster.make_bucket(name);
  auto& index = cluster.gateway->index;
  REQUIRE(cluster.run(index.create_bucket("mine", "me", "eu", cluster.soon())).has_value());
  const auto all = cluster.run(index.list_buckets("", cluster.soon()));
  REQUIRE(all.has_value());
  REQUIRE(all->size() == 4);
  CHECK((*all)[0].name == "bar");
  CHECK((*all)[3].name == "zoo");
  const auto mine = cluster.run(index.list_buckets("me", cluster.soon()));
  REQUIRE(mine->size() == 1);
  CHECK(mine->front().name == "mine");
}

TEST_CASE("An empty bucket is deleted and its name is free; a full one is left as it was") {
  FakeCluster cluster;
  auto& index = cluster.gateway->index;
  const auto bucket = cluster.make_bucket("b");
  CHECK(cluster.run(index.delete_bucket("c", cluster.soon())).error().code == Errc::not_found);
  put(cluster, bucket, "key");
  CHECK(cluster.run(index.delete_bucket("b", cluster.soon())).error().code == Errc::precondition);
  CHECK(cluster.run(index.bucket("b", cluster.soon())).value()->record.number == BucketNumber{1});
  erase(cluster, bucket, "key");
  REQUIRE(cluster.run(index.delete_bucket("b", cluster.soon())).has_value());
  CHECK(cluster.run(index.bucket("b", cluster.soon())).error().code == Errc::not_found);
  const auto again = cluster.make_bucket("b");
  CHECK(again->record.id != bucket->record.id);
}

TEST_CASE("A write that knows the bucket of before the delete is refused") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  REQUIRE(cluster.run(cluster.gateway->index.delete_bucket("b", cluster.soon())).has_value());
  auto stored = cluster.run(cluster.gateway->objects.put(*bucket, "key", ObjectRecord{}, nullptr,
                                                         Condition{}, cluster.soon()));
  CHECK(stored.error().code == Errc::stale_bucket);
  CHECK(list(cluster, bucket).error().code == Errc::stale_bucket);
}

TEST_CASE("An object that gets in between list and fence reopens the bucket") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  // The second scan round is the fenced one: a put is chosen right before it.
  bool written = false;
  for (auto& volume : cluster.volumes) {
    volume->before_scan = [&](const ScanRequest& request) {
      if (request.fence.value == 0 || written) return;
      written = true;
      // A row of a put that was accepted by all before any volume was fenced.
      RegisterKey key{RowKind::object, bucket->record.id, "late", {}, 0};
      ObjectRecord record;
      RegisterValue value = to_value(record, 0);
      value.op_id = OpId{7, 7};
      value.chain.push_back(OpId{});
      for (auto& each : cluster.volumes) {
        auto& row = each->acceptor.rows[key];
        row.accepted.ballot = Ballot{1, 1, 1};
        row.accepted.value = std::make_shared<const std::string>(encode(key, value));
      }
    };
  }
  auto deleted = cluster.run(cluster.gateway->index.delete_bucket("b", cluster.soon()));
  CHECK(deleted.error().code == Errc::precondition);
  CHECK(written);
  const auto reopened = cluster.run(cluster.gateway->index.bucket("b", cluster.soon()));
  REQUIRE(reopened.has_value());
  CHECK((*reopened)->record.number == BucketNumber{3});
  CHECK(names(list(cluster, *reopened).value()) == Names{"late"});
}

TEST_CASE("A delete that was interrupted is driven on by the next one") {
  FakeCluster cluster;
  cluster.make_bucket("b");
  // The first deleter gets no quorum for its fenced list.
  for (auto& volume : cluster.volumes) volume->fail_fenced_scans = true;
  auto& first = cluster.another_gateway();
  CHECK(cluster.run(first.index.delete_bucket("b", cluster.soon())).error().code ==
        Errc::unavailable);
  const auto left = cluster.run(
      cluster.gateway->index.bucket("b", cluster.clock.boot() + std::chrono::seconds(1)));
  CHECK(left.error().code == Errc::busy);
  for (auto& volume : cluster.volumes) volume->fail_fenced_scans = false;
  REQUIRE(cluster.run(cluster.gateway->index.delete_bucket("b", cluster.soon())).has_value());
  CHECK(cluster.run(cluster.gateway->index.bucket("b", cluster.soon())).error().code ==
        Errc::not_found);
}

TEST_CASE("A removal that was cut off is ended by whoever opens the bucket, or makes it anew") {
  for (const bool create : {false, true}) {
    CAPTURE(create);
    FakeCluster cluster;
    leave_deleting(cluster, *cluster.make_bucket("b"));
    Index& index = cluster.gateway->index;
    const BootTime before = cluster.clock.boot();
    if (create) {
      const auto made = cluster.run(index.create_bucket("b", "owner", "region", cluster.soon()));
      REQUIRE(made.has_value());
      CHECK_FALSE(made->existed);
    } else {
      const auto found = cluster.run(index.bucket("b", cluster.soon()));
      CHECK(found.error().code == Errc::not_found);
    }
    // Its deleter might have lived; the wait ends when one more look would be too late.
    CHECK(cluster.clock.boot() - before >= Duration(limits::kBucketTakeover) / 10 * 9);
    CHECK(cluster.clock.boot() - before < 2 * Duration(limits::kBucketTakeover));
  }
}

TEST_CASE("A bucket whose removal was cut off and that is not empty is open again, with its keys") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  put(cluster, bucket, "key");
  leave_deleting(cluster, *bucket);
  const auto found = cluster.run(cluster.gateway->index.bucket("b", cluster.soon()));
  REQUIRE(found.has_value());
  CHECK((*found)->record.number == BucketNumber{3});
  CHECK(names(list(cluster, *found).value()) == Names{"key"});
}

TEST_CASE("A bucket whose removal nobody can end is waited for, then busy") {
  FakeCluster cluster;
  leave_deleting(cluster, *cluster.make_bucket("b"));
  for (auto& volume : cluster.volumes) volume->fail_fenced_scans = true;
  const BootTime before = cluster.clock.boot();
  auto found = cluster.run(
      cluster.gateway->index.bucket("b", cluster.clock.boot() + std::chrono::minutes(2)));
  CHECK(found.error().code == Errc::busy);
  CHECK(cluster.clock.boot() - before >= Duration(limits::kBucketDeletingWait));
  CHECK(cluster.clock.boot() - before < 2 * Duration(limits::kBucketDeletingWait));
}

TEST_CASE("A list shows what was put and not what was deleted, page by page") {
  for (const std::uint32_t partitions : {1u, 16u}) {
    CAPTURE(partitions);
    FakeCluster cluster(3, 8);
    const auto bucket = cluster.make_bucket("b", partitions);
    for (const char* key : {"a", "b", "c", "d", "e"}) put(cluster, bucket, key);
    erase(cluster, bucket, "c");
    CHECK(names(list(cluster, bucket).value()) == Names{"a", "b", "d", "e"});
    ListRequest request;
    request.max_keys = 2;
    const auto first = list(cluster, bucket, request).value();
    CHECK(names(first) == Names{"a", "b", "..."});
    request.after = first.next_after;
    const auto second = list(cluster, bucket, request).value();
    CHECK(names(second) == Names{"d", "e"});
    request.max_keys = 0;
    CHECK(names(list(cluster, bucket, request).value()).empty());
  }
}

TEST_CASE("Common prefixes stand for what is under them, and count as keys") {
  FakeCluster cluster(3, 8);
  const auto bucket = cluster.make_bucket("b", 16);
  for (const char* key : {"a", "b/1", "b/2", "b/3", "c", "d/1/x", "d/2", "e"}) {
    put(cluster, bucket, key);
  }
  erase(cluster, bucket, "b/1");
  ListRequest request;
  request.delimiter = "/";
  CHECK(names(list(cluster, bucket, request).value()) == Names{"a", "b/", "c", "d/", "e"});
  request.prefix = "d/";
  CHECK(names(list(cluster, bucket, request).value()) == Names{"d/1/", "d/2"});
  request.prefix.clear();
  request.max_keys = 2;
  const auto page = list(cluster, bucket, request).value();
  CHECK(names(page) == Names{"a", "b/", "..."});
  CHECK(page.next_after_is_prefix);
  request.after = page.next_after;
  request.after_is_prefix = page.next_after_is_prefix;
  CHECK(names(list(cluster, bucket, request).value()) == Names{"c", "d/", "..."});
  for (const char* key : {"b/2", "b/3"}) erase(cluster, bucket, key);
  request = ListRequest{};
  request.delimiter = "/";
  CHECK(names(list(cluster, bucket, request).value()) == Names{"a", "c", "d/", "e"});
}

TEST_CASE("Below a majority there is no list, never a shorter one") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b");
  put(cluster, bucket, "a");
  const auto group = group_of(bucket->record.id, 0, 4);
  const auto& replicas = cluster.map->groups[group.value].replicas;
  int down = 0;
  for (auto& volume : cluster.volumes) {
    const auto at = std::find(replicas.begin(), replicas.end(), volume->id());
    if (at == replicas.end()) continue;
    volume->fail_scans = true;
    ++down;
    const auto page = list(cluster, bucket);
    CAPTURE(down);
    CHECK(page.has_value() == (down <= 2));
    if (page) CHECK(names(*page) == Names{"a"});
    if (!page) CHECK(page.error().code == Errc::unavailable);
    if (down == 3) break;
  }
}

TEST_CASE("A page is asked of a majority, of all where that fails or does not agree") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 1);
  const auto group = group_of(bucket->record.id, 0, 4);
  const auto& replicas = cluster.map->groups[group.value].replicas;
  std::vector<FakeVolume*> volumes;
  for (const VolumeId id : replicas) {
    for (auto& volume : cluster.volumes) {
      if (volume->id() == id) volumes.push_back(volume.get());
    }
  }
  REQUIRE(volumes.size() == 5);
  const auto scans = [&] {
    std::vector<int> counts;
    for (FakeVolume* volume : volumes) counts.push_back(std::exchange(volume->counters.scans, 0));
    return counts;
  };
  Names all;
  for (int i = 10; i < 60; ++i) all.push_back("k" + std::to_string(i));
  for (const std::string& key : all) put(cluster, bucket, key);
  scans();
  CHECK(names(list(cluster, bucket).value()) == all);
  CHECK(scans() == std::vector<int>{1, 1, 1, 0, 0});

  volumes[1]->fail_scans = true;
  CHECK(names(list(cluster, bucket).value()) == all);
  CHECK(scans() == std::vector<int>{1, 1, 1, 1, 1});
  volumes[1]->fail_scans = false;

  // One of the three misses all that is written now: a few keys are read, then all are asked.
  volumes[2]->acceptor.state = VolumeStatus::State::closed;
  for (const std::string& key : all) put(cluster, bucket, key, "new");
  volumes[2]->acceptor.state = VolumeStatus::State::open;
  FakeGateway& other = cluster.another_gateway();  // to which no volume is suspect
  scans();
  const auto page = cluster.run(other.index.list(bucket, ListRequest{}, cluster.soon()));
  CHECK(names(page.value()) == all);
  for (const ListEntry& entry : page->entries) CHECK(entry.summary.etag == "new");
  CHECK(scans() == std::vector<int>{2, 2, 2, 1, 1});
}

TEST_CASE("Random puts and deletes through lagging and broken replicas are listed exactly") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 12; ++round) {
    FakeCluster cluster(100 + static_cast<std::uint64_t>(round), 4);
    const auto bucket = cluster.make_bucket("b", round % 2 == 0 ? 1 : 8);
    std::set<std::string> live;
    for (int i = 0; i < 60; ++i) {
      // One volume at a time misses what is written.
      for (auto& volume : cluster.volumes) volume->acceptor.state = VolumeStatus::State::open;
      cluster.volumes[random() % 6]->acceptor.state = VolumeStatus::State::closed;
      std::string key(1, static_cast<char>('a' + random() % 3));
      key += "/" + std::to_string(random() % 9);
      if (random() % 3 != 0) {
        put(cluster, bucket, key);
        live.insert(key);
      } else {
        erase(cluster, bucket, key);
        live.erase(key);
      }
    }
    for (auto& volume : cluster.volumes) volume->acceptor.state = VolumeStatus::State::open;
    for (auto& [key, row] : cluster.volumes[random() % 6]->acceptor.rows) {
      if (key.kind == RowKind::object && key.bucket == bucket->record.id) {
        row.unreadable = random() % 4 == 0;
      }
    }
    std::set<std::string> prefixes;
    for (const std::string& key : live) prefixes.insert(key.substr(0, 2));
    for (const std::size_t page_size : {std::size_t{3}, std::size_t{1000}}) {
      for (const char* delimiter : {"", "/"}) {
        ListRequest request;
        request.max_keys = page_size;
        request.delimiter = delimiter;
        std::set<std::string> listed;
        for (int pages = 0; pages < 100; ++pages) {
          const auto page = list(cluster, bucket, request);
          REQUIRE(page.has_value());
          for (const ListEntry& entry : page->entries) {
            CHECK(listed.insert(entry.key).second);
          }
          if (!page->truncated) break;
          request.after = page->next_after;
          request.after_is_prefix = page->next_after_is_prefix;
        }
        CHECK(listed == (request.delimiter.empty() ? live : prefixes));
      }
    }
  }
}

TEST_CASE("A marker is a common prefix only if it is exactly one") {
  CHECK(is_common_prefix("boo/", "", "/"));
  CHECK_FALSE(is_common_prefix("boo/bar", "", "/"));
  CHECK_FALSE(is_common_prefix("boo/", "boo/", "/"));
  CHECK(is_common_prefix("boo/bar/", "boo/", "/"));
  CHECK_FALSE(is_common_prefix("coo/bar/", "boo/", "/"));
  CHECK_FALSE(is_common_prefix("boo/", "", ""));
  CHECK_FALSE(is_common_prefix("", "", "/"));
}

TEST_CASE("A marker inside of a common prefix shows it again only for keys behind the marker") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 4);
  for (const char* key : {"a", "b/1", "b/3", "c/", "c/x", "d"}) put(cluster, bucket, key);
  struct Row {
    const char* marker;
    Names names;
  };
  for (const Row& row :
       {Row{"b", {"b/", "c/", "d"}}, Row{"b/", {"c/", "d"}}, Row{"b/1", {"b/", "c/", "d"}},
        Row{"b/2", {"b/", "c/", "d"}}, Row{"b/3", {"c/", "d"}}, Row{"b/zz", {"c/", "d"}},
        Row{"c/", {"d"}}, Row{"c/x", {"d"}}, Row{"c0", {"d"}}, Row{"d", {}}, Row{"x/", {}}}) {
    CAPTURE(row.marker);
    ListRequest request;
    request.delimiter = "/";
    request.after = row.marker;
    request.after_is_prefix = is_common_prefix(row.marker, "", "/");
    CHECK(names(list(cluster, bucket, request).value()) == row.names);
  }
}

TEST_CASE("A page that is cut among deleted keys leads on, though its end looks like a prefix") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 1);
  put(cluster, bucket, "dead");
  erase(cluster, bucket, "dead");
  for (auto& volume : cluster.volumes) {
    auto& rows = volume->acceptor.rows;
    RegisterKey key;
    key.bucket = bucket->record.id;
    key.key = "dead";
    const auto found = rows.find(key);
    if (found == rows.end()) continue;
    for (std::size_t i = 0; i < limits::kScanRowsMax + 10'000; ++i) {
      key.key = "k" + std::to_string(1'000'000 + i);
      rows[key] = found->second;
    }
  }
  const auto first = list(cluster, bucket).value();
  REQUIRE(first.entries.empty());
  REQUIRE(first.truncated);
  const std::string end = first.next_after;  // a deleted key, the last that was looked at
  put(cluster, bucket, end + "/live");

  ListRequest request;
  request.delimiter = end;  // so this key is just a common prefix, and the live one is under it
  Names listed;
  for (int pages = 0; pages < 10; ++pages) {
    const auto page = list(cluster, bucket, request).value();
    for (const ListEntry& entry : page.entries) listed.push_back(entry.key);
    if (!page.truncated) break;
    request.after = page.next_after;
    request.after_is_prefix = is_common_prefix(page.next_after, "", end);
    CHECK(request.after_is_prefix == page.next_after_is_prefix);
  }
  CHECK(listed == Names{end});
}
