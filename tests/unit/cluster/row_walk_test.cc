#include "server/cluster/row_walk.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

// The first `count` keys behind `stem` that lie in `partition` of two.
std::vector<std::string> keys_in(BucketId bucket, std::uint32_t partition, const std::string& stem,
                                 std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t n = 1'000'000; keys.size() < count; ++n) {
    std::string key = stem + std::to_string(n);
    if (partition_of(bucket, key, 2) == partition) keys.push_back(std::move(key));
  }
  return keys;
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
  FakeAcceptor::Row tombstone;
  RegisterValue value = tombstone_value();
  value.chain.push_back(OpId{});
  tombstone.accepted.ballot = Ballot{1, 1, 1};
  tombstone.accepted.value =
      std::make_shared<const std::string>(encode(RegisterKey{}, value));
  for (const auto& node : cluster.nodes) {
    for (const std::string& key : dead) {
      node->acceptor.rows[Index::object(*bucket, key).key] = tombstone;
    }
  }
  const std::string live = keys_in(id, 0, "a~", 1).front();
  REQUIRE(cluster.run(cluster.gateway->objects.put(*bucket, live, ObjectRecord{}, nullptr,
                                                   Condition{}, cluster.soon())));

  std::vector<std::string> listed;
  ListRequest request;
  int pages = 0;
  for (bool more = true; more && pages < 10; ++pages) {
    const auto page = cluster.run(cluster.gateway->index.list(bucket, request, cluster.soon()));
    REQUIRE(page);
    for (const ListEntry& entry : page->entries) listed.push_back(entry.key);
    request.after = page->next_after;
    more = page->truncated;
  }
  CHECK(pages > 1);
  CHECK(listed == std::vector<std::string>{live});
}

}  // namespace penstock
