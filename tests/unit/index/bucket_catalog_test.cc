#include "server/index/bucket_catalog.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_cluster.h"

namespace penstock {

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

}  // namespace penstock
