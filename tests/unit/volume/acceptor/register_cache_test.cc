#include "server/volume/acceptor/register_cache.h"

#include <doctest/doctest.h>

namespace penstock {
namespace {

RegisterKey key(std::string name) {
  RegisterKey made;
  made.bucket = BucketId{1};
  made.key = std::move(name);
  return made;
}
RowPtr row_of(std::size_t value_bytes) {
  auto row = std::make_shared<RegisterRow>();
  row->value = std::make_shared<const std::string>(value_bytes, 'x');
  return row;
}

}  // namespace

TEST_CASE("a row that grows or shrinks in its place counts for what it is now") {
  RegisterCache cache(1 << 20);
  cache.put(key("a"), row_of(100));
  const std::size_t small = cache.bytes();
  cache.put(key("a"), row_of(5'100));
  CHECK(cache.bytes() == small + 5'000);
  CHECK(cache.size() == 1);
  cache.put(key("a"), row_of(100));
  CHECK(cache.bytes() == small);
  cache.erase(key("a"));
  CHECK(cache.bytes() == 0);
  CHECK(cache.size() == 0);
}

TEST_CASE("who was not used longest goes first, and what is above the bound alone stays not") {
  RegisterCache cache(3'000);
  for (const char* name : {"a", "b"}) cache.put(key(name), row_of(1'000));
  REQUIRE(cache.find(key("a")) != nullptr);
  cache.put(key("c"), row_of(1'000));
  CHECK(cache.find(key("b")) == nullptr);
  CHECK(cache.find(key("a")) != nullptr);
  cache.put(key("c"), row_of(500));  // used by being changed
  REQUIRE(cache.find(key("a")) != nullptr);
  cache.put(key("c"), row_of(600));
  cache.put(key("d"), row_of(1'000));
  CHECK(cache.find(key("a")) == nullptr);
  CHECK(cache.find(key("c")) != nullptr);
  cache.put(key("big"), row_of(4'000));
  CHECK(cache.bytes() == 0);
}

}  // namespace penstock
