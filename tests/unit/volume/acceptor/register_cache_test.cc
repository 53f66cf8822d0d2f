#include "server/volume/acceptor/register_cache.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

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

const RowPtr* find(RegisterCache& cache, const RegisterKey& key) {
  return cache.find(key, RegisterKeyHash{}(key));
}
void put(RegisterCache& cache, const RegisterKey& key, RowPtr row) {
  cache.put(key, RegisterKeyHash{}(key), std::move(row));
}
void offer(RegisterCache& cache, const RegisterKey& key, RowPtr row) {
  cache.offer(key, RegisterKeyHash{}(key), std::move(row));
}
void erase(RegisterCache& cache, const RegisterKey& key) {
  cache.erase(key, RegisterKeyHash{}(key));
}

}  // namespace

TEST_CASE("a row that grows or shrinks in its place counts for what it is now") {
  RegisterCache cache(1 << 20);
  put(cache, key("a"), row_of(100));
  const std::size_t small = cache.bytes();
  put(cache, key("a"), row_of(5'100));
  CHECK(cache.bytes() == small + 5'000);
  CHECK(cache.size() == 1);
  put(cache, key("a"), row_of(100));
  CHECK(cache.bytes() == small);
  erase(cache, key("a"));
  CHECK(cache.bytes() == 0);
  CHECK(cache.size() == 0);
}

TEST_CASE("who was not used since its last turn goes first, and what is too large is not kept") {
  RegisterCache cache(3'000);
  for (const char* name : {"a", "b"}) put(cache, key(name), row_of(1'000));
  REQUIRE(find(cache, key("a")) != nullptr);
  put(cache, key("c"), row_of(1'000));
  CHECK(find(cache, key("b")) == nullptr);
  CHECK(find(cache, key("a")) != nullptr);
  put(cache, key("c"), row_of(500));  // used by being changed
  REQUIRE(find(cache, key("a")) != nullptr);
  put(cache, key("c"), row_of(600));
  put(cache, key("d"), row_of(1'000));
  CHECK(find(cache, key("a")) == nullptr);
  CHECK(find(cache, key("c")) != nullptr);
  put(cache, key("big"), row_of(4'000));
  CHECK(cache.bytes() == 0);
}

TEST_CASE("many rows are all found, and the bound keeps the newest of them") {
  RegisterCache cache(1 << 30);
  RegisterCache small(100 * row_of(10)->bytes() + 600);
  for (int i = 0; i < 5'000; ++i) {
    put(cache, key(std::to_string(i)), row_of(10 + static_cast<std::size_t>(i % 7)));
    put(small, key(std::to_string(i)), row_of(10));
  }
  CHECK(cache.size() == 5'000);
  for (int i = 0; i < 5'000; i += 2) erase(cache, key(std::to_string(i)));
  CHECK(cache.size() == 2'500);
  std::size_t bytes = 0;
  for (int i = 0; i < 5'000; ++i) {
    const RowPtr* const found = find(cache, key(std::to_string(i)));
    REQUIRE((found != nullptr) == (i % 2 == 1));
    if (found == nullptr) continue;
    CHECK((*found)->value->size() == 10 + static_cast<std::size_t>(i % 7));
    bytes += (*found)->bytes() + std::to_string(i).size();
  }
  CHECK(cache.bytes() == bytes);
  CHECK(small.size() == 100);
  for (int i = 0; i < 5'000; ++i) {
    CHECK((find(small, key(std::to_string(i))) != nullptr) == (i >= 4'900));
  }
}

TEST_CASE("keys that differ in one part only are different") {
  RegisterCache cache(1 << 20);
  std::vector<RegisterKey> keys(5, key("name"));
  keys[1].bucket = BucketId{2};
  keys[2].kind = RowKind::upload;
  keys[2].upload_id = "id";
  keys[3] = keys[2];
  keys[3].kind = RowKind::part;
  keys[3].part = 1;
  keys[4] = keys[3];
  keys[4].part = 2;
  for (std::size_t i = 0; i < keys.size(); ++i) put(cache, keys[i], row_of(i));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    REQUIRE(find(cache, keys[i]) != nullptr);
    CHECK((*find(cache, keys[i]))->value->size() == i);
  }
}

TEST_CASE("rows that are read once, however many, push out nothing") {
  RegisterCache cache(100 * (row_of(10)->bytes() + std::string("kept-10").size()));
  for (int i = 0; i < 100; ++i) offer(cache, key("kept-" + std::to_string(i)), row_of(10));
  REQUIRE(cache.size() == 100);
  const std::size_t full = cache.bytes();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20'000; ++i) offer(cache, key("once-" + std::to_string(i)), row_of(10));
  }
  int kept = 0;
  for (int i = 0; i < 100; ++i) {
    kept += find(cache, key("kept-" + std::to_string(i))) != nullptr ? 1 : 0;
  }
  CHECK(kept >= 95);  // two names may look like one
  CHECK(cache.bytes() <= full + row_of(10)->bytes());
}

TEST_CASE("what is read twice comes in, for rows that nobody reads") {
  RegisterCache cache(100 * (row_of(10)->bytes() + std::string("kept-10").size()));
  for (int i = 0; i < 100; ++i) offer(cache, key("kept-" + std::to_string(i)), row_of(10));
  for (int i = 0; i < 50; ++i) {
    for (int time = 0; time < 2; ++time) offer(cache, key("new-" + std::to_string(i)), row_of(10));
    CHECK(find(cache, key("new-" + std::to_string(i))) != nullptr);
  }
}

TEST_CASE("rows that are read again and again come in, but not for rows that are used as often") {
  RegisterCache cache(100 * (row_of(10)->bytes() + std::string("old-10").size()));
  for (int i = 0; i < 100; ++i) offer(cache, key("old-" + std::to_string(i)), row_of(10));
  const auto read = [&](const std::string& name, int of) {
    int found = 0;
    for (int i = 0; i < of; ++i) {
      const RegisterKey wanted = key(name + std::to_string(i));
      if (find(cache, wanted) != nullptr) {
        ++found;
      } else {
        offer(cache, wanted, row_of(10));
      }
    }
    return found;
  };
  for (int round = 0; round < 20; ++round) {
    CHECK(read("old-", 100) >= 99);
    read("new-", 50);
  }
  for (int round = 0; round < 4; ++round) read("new-", 50);  // the old ones' last turns end
  CHECK(read("new-", 50) >= 35);  // two that share a place push each other out of it
}

}  // namespace penstock
