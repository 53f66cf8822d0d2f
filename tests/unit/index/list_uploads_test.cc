#include "server/index/list_uploads.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_cluster.h"

namespace penstock {
namespace {

// All volumes hold an aborted upload of each of these keys.
void hold_aborted(FakeCluster& cluster, const Bucket& bucket, std::size_t count,
                  const std::string& stem) {
  RegisterValue value = to_value(UploadRecord{}, ValueKind::upload_aborted);
  value.chain.push_back(OpId{});
  FakeAcceptor::Row row;
  row.accepted.ballot = Ballot{1, 1, 1};
  row.accepted.value = std::make_shared<const std::string>(encode(RegisterKey{}, value));
  for (std::size_t n = 0; n < count; ++n) {
    const std::string key = stem + std::to_string(1'000'000 + n);
    const RegisterKey name = Index::upload(bucket, key, std::string(32, 'u')).key;
    for (const auto& volume : cluster.volumes) volume->acceptor.rows[name] = row;
  }
}

struct Listed {
  std::vector<std::string> keys;
  int pages = 0;
};
Listed list_all(FakeCluster& cluster, std::shared_ptr<const Bucket> bucket,
                const std::string& delimiter) {
  Listed listed;
  UploadListRequest request;
  request.delimiter = delimiter;
  for (bool more = true; more && listed.pages < 10; ++listed.pages) {
    const auto page =
        cluster.run(cluster.gateway->index.list_uploads(bucket, request, cluster.soon()));
    REQUIRE(page.has_value());
    for (const UploadEntry& entry : page->entries) listed.keys.push_back(entry.key);
    request.key_marker = page->next_key;
    request.upload_id_marker = page->next_upload_id;
    more = page->truncated;
  }
  return listed;
}

}  // namespace

TEST_CASE("A page of uploads that is cut among ended ones shows no common prefix again") {
  using Keys = std::vector<std::string>;
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 1);
  Multipart& multipart = cluster.gateway->multipart;
  for (const char* key : {"c", "d/1", "d/z", "e"}) {
    REQUIRE(cluster.run(multipart.create(*bucket, key, UploadRecord{}, cluster.soon())));
  }
  cluster.settle_down();
  hold_aborted(cluster, *bucket, limits::kScanRowsMax + 10'000, "d/k");
  const Listed by_prefix = list_all(cluster, bucket, "/");
  CHECK(by_prefix.keys == Keys{"c", "d/", "e"});
  const Listed all = list_all(cluster, bucket, "");
  CHECK(all.pages > 1);
  CHECK(all.keys == Keys{"c", "d/1", "d/z", "e"});
}

TEST_CASE("Parts are listed behind a number, as many as are wanted") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 1);
  Multipart& multipart = cluster.gateway->multipart;
  const auto id = cluster.run(multipart.create(*bucket, "k", UploadRecord{}, cluster.soon()));
  REQUIRE(id.has_value());
  for (const std::uint16_t number : {1, 2, 255, 256, 257, 10'000}) {
    PartInfo part;
    part.number = number;
    part.size_bytes = 1;
    REQUIRE(cluster.run(multipart.put_part(*bucket, "k", *id, part, cluster.soon())));
  }
  using Numbers = std::vector<int>;
  const auto numbers = [&](std::uint16_t after, std::size_t most) {
    auto parts = cluster.run(
        cluster.gateway->index.list_parts(bucket, "k", *id, cluster.soon(), {after, most}));
    Numbers found;
    for (const PartInfo& part : parts.value()) found.push_back(part.number);
    return found;
  };
  CHECK(numbers(0, 10'000) == Numbers{1, 2, 255, 256, 257, 10'000});
  CHECK(numbers(0, 2) == Numbers{1, 2});
  CHECK(numbers(2, 2) == Numbers{255, 256});
  CHECK(numbers(255, 10'000) == Numbers{256, 257, 10'000});
  CHECK(numbers(9'999, 1) == Numbers{10'000});
  CHECK(numbers(10'000, 1).empty());
  CHECK(numbers(1, 0).empty());
}

}  // namespace penstock
