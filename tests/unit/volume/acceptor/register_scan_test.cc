#include "penstock/row_key.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

using namespace std::string_literals;

std::vector<std::string> keys_of(const Result<ScanReply>& reply) {
  REQUIRE(reply);
  std::vector<std::string> keys;
  for (const ScanRow& row : reply->rows) keys.push_back(row.key);
  return keys;
}
using Keys = std::vector<std::string>;

void store_all(VolumeHarness& h, const Keys& keys, ValueKind kind = ValueKind::object) {
  for (const std::string& key : keys) h.store(h.object(key), h.ballot(1), h.value(1, kind));
}

TEST_CASE("a scan returns the rows of its bucket in order, tombstones included") {
  VolumeHarness h;
  h.fresh();
  store_all(h, {"b", "a", "c"});
  store_all(h, {"ab"}, ValueKind::tombstone);
  h.store(h.object("other", BucketId{4}), h.ballot(1), h.value(1));
  h.store(h.object("other", BucketId{6}), h.ballot(1), h.value(1));
  h.store(h.upload("a"), h.ballot(1), h.value(1, ValueKind::upload_open));
  const auto reply = h.scan(h.scan_request());
  CHECK(keys_of(reply) == Keys{"a", "ab", "b", "c"});
  CHECK(reply->covered_to.empty());
  CHECK(reply->rows[1].kind == ValueKind::tombstone);
  CHECK(reply->rows[0].kind == ValueKind::object);
  CHECK(reply->rows[0].ballot == h.ballot(1));
  CHECK(reply->rows[0].summary == "summary 1");
}

TEST_CASE("start, end and prefix bound a scan") {
  VolumeHarness h;
  h.fresh();
  store_all(h, {"a", "b", "ba", "bb", "c", "\xff", "\xff\xff"});
  const struct {
    std::string start, end, prefix;
    Keys expected;
  } cases[] = {
      {"", "", "", {"a", "b", "ba", "bb", "c", "\xff", "\xff\xff"}},
      {"b", "", "", {"b", "ba", "bb", "c", "\xff", "\xff\xff"}},
      {"b\0"s, "c", "", {"ba", "bb"}},
      {"", "", "b", {"b", "ba", "bb"}},
      {"ba", "", "b", {"ba", "bb"}},
      {"", "", "\xff", {"\xff", "\xff\xff"}},
      {"c", "", "b", {}},
      {"", "a", "", {}},
  };
  for (const auto& test : cases) {
    auto request = h.scan_request();
    request->start = test.start;
    request->end = test.end;
    request->prefix = test.prefix;
    const auto reply = h.scan(request);
    CHECK(keys_of(reply) == test.expected);
    CHECK(reply->covered_to.empty());
  }
}

TEST_CASE("a page says how far it reaches, and pages together are the whole") {
  VolumeHarness h;
  h.fresh();
  Keys all;
  for (int i = 0; i < 50; ++i) all.push_back("key" + std::to_string(100 + i));
  store_all(h, all);
  for (const std::uint32_t rows_max : {1u, 7u, 49u, 50u, 51u}) {
    Keys seen;
    std::string start;
    do {
      auto request = h.scan_request();
      request->start = start;
      request->rows_max = rows_max;
      const auto reply = h.scan(request);
      const Keys keys = keys_of(reply);
      CHECK(keys.size() <= rows_max);
      seen.insert(seen.end(), keys.begin(), keys.end());
      start = reply->covered_to;
    } while (!start.empty());
    CHECK(seen == all);
  }
}

TEST_CASE("after one live witness of a common prefix the scan skips to its end") {
  VolumeHarness h;
  h.fresh();
  store_all(h, {"a/1", "a/2", "a/3", "b", "c//1", "c/2", "d/1/2"});
  store_all(h, {"a/0"}, ValueKind::tombstone);
  auto request = h.scan_request();
  request->delimiter = "/";
  CHECK(keys_of(h.scan(request)) == Keys{"a/0", "a/1", "b", "c//1", "d/1/2"});
  request->prefix = "c/";
  CHECK(keys_of(h.scan(request)) == Keys{"c//1", "c/2"});
  request->prefix = "d/1";
  CHECK(keys_of(h.scan(request)) == Keys{"d/1/2"});
}

TEST_CASE("a common prefix that ends in ff bytes is skipped to the right place") {
  VolumeHarness h;
  h.fresh();
  store_all(h, {"a\xff\x31", "a\xff\x32", "b", "\xff\xff\x31", "\xff\xff\x32"});
  auto request = h.scan_request();
  request->delimiter = "\xff";
  CHECK(keys_of(h.scan(request)) == Keys{"a\xff\x31", "b", "\xff\xff\x31"});
}

TEST_CASE("partitions divide the keys of a bucket") {
  VolumeHarness h;
  h.fresh();
  Keys all;
  for (int i = 0; i < 100; ++i) all.push_back("key" + std::to_string(100 + i));
  store_all(h, all);
  Keys together;
  for (unsigned partition = 0; partition < 16; ++partition) {
    auto request = h.scan_request();
    request->partition_count = 16;
    request->partition_mask = std::uint64_t{1} << partition;
    for (const std::string& key : keys_of(h.scan(request))) {
      CHECK(partition_of(kBucket, key, 16) == partition);
      together.push_back(key);
    }
  }
  std::sort(together.begin(), together.end());
  CHECK(together == all);
}

TEST_CASE("parts of an upload come with their values, in order of their numbers") {
  VolumeHarness h;
  h.fresh();
  h.store(h.upload("key"), h.ballot(1), h.value(1, ValueKind::upload_open));
  for (const std::uint16_t number : {300, 2, 10'000}) {
    h.store(h.part("key", number), h.ballot(1), h.value(number, ValueKind::part));
  }
  auto request = h.scan_request(RowKind::part);
  request->prefix = "key\0"s + std::string(32, 'U');
  request->payloads = true;
  const auto reply = h.scan(request);
  REQUIRE(reply);
  REQUIRE(reply->rows.size() == 3);
  const std::uint16_t order[] = {2, 300, 10'000};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(reply->rows[i].key == request->prefix + char(order[i] >> 8) + char(order[i] & 255));
    const auto value = decode_value(h.part("key", order[i]), reply->rows[i].summary);
    REQUIRE(value);
    CHECK(value->op_id == OpId{order[i], order[i]});
  }
}

TEST_CASE("only uploads that are under way stand for a common prefix") {
  VolumeHarness h;
  h.fresh();
  h.store(h.upload("dir/a"), h.ballot(1), h.value(1, ValueKind::upload_aborted));
  h.store(h.upload("dir/b"), h.ballot(1), h.value(1, ValueKind::upload_open));
  h.store(h.upload("dir/c"), h.ballot(1), h.value(1, ValueKind::upload_open));
  auto request = h.scan_request(RowKind::upload);
  request->delimiter = "/";
  const std::string tail = "\0"s + std::string(32, 'U');
  CHECK(keys_of(h.scan(request)) == Keys{"dir/a" + tail, "dir/b" + tail});
}

TEST_CASE("a damaged row is marked, read as corrupt, and healed only from above") {
  VolumeHarness h;
  h.fresh();
  store_all(h, {"a", "b", "c"});
  h.store(h.object("b"), h.ballot(5), h.value(2), "inline");
  RowOp damage{register_row_key(h.object("b")), std::string("no sealed row")};
  // As a stray write would: behind the back of the store, which therefore forgets its cache.
  h.close();
  h.with_database([&damage](Database& database) {
    leveldb::WriteBatch batch;
    batch.Put(damage.key, *damage.value);
    REQUIRE(database.write(batch));
  });
  h.open();
  const auto reply = h.scan(h.scan_request());
  CHECK(keys_of(reply) == Keys{"a", "b", "c"});
  CHECK_FALSE(reply->rows[0].unreadable);
  CHECK(reply->rows[1].unreadable);
  RegisterListRequest list;
  list.kind = RowKind::object;
  const auto listed = h.run(h.volume->list_registers(list, h.later()));
  REQUIRE(listed);
  CHECK(listed->rows.size() == 2);
  CHECK(listed->damaged);
  CHECK(code_of(h.read(h.object("b"))) == Errc::corrupt);
  CHECK(code_of(h.prepare(h.object("b"), h.ballot(60'000'000))) == Errc::corrupt);
  CHECK(code_of(h.accept(h.object("b"), h.ballot(4), h.value(3))) == Errc::corrupt);
  CHECK(code_of(h.drop(h.object("b"), h.ballot(5))) == Errc::corrupt);
  h.store(h.object("b"), h.ballot(60'000'000), h.value(3));
  CHECK(h.read(h.object("b"))->ballot == h.ballot(60'000'000));
}

TEST_CASE("a fenced scan is durable, counts what was accepted before, and stops the rest") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey before = h.object("before");
  // The accept is queued; the fence goes behind it.
  std::optional<Result<AcceptReply>> accepted;
  auto ended = [&](std::exception_ptr, Result<AcceptReply> reply) { accepted = reply; };
  boost::asio::co_spawn(
      h.io, h.volume->accept(h.accept_request(before, h.ballot(1), h.value(1)), h.later()), ended);
  auto fenced = h.scan_request();
  fenced->fence = BucketNumber{2};
  fenced->round.pass_fence = true;
  const auto reply = h.scan(fenced);
  CHECK(keys_of(reply) == Keys{"before"});
  REQUIRE(accepted);
  CHECK((*accepted)->accepted);
  for (int start = 0; start < 2; ++start) {
    CHECK(code_of(h.accept(h.object("late"), h.ballot(2), h.value(2))) == Errc::stale_bucket);
    CHECK(code_of(h.prepare(before, h.ballot(3))) == Errc::stale_bucket);
    CHECK(code_of(h.read(before)) == Errc::stale_bucket);
    CHECK(code_of(h.scan(h.scan_request())) == Errc::stale_bucket);
    auto next = h.read_request(before);
    next->round.bucket_number = BucketNumber{3};
    CHECK(h.run(h.volume->read(next, h.later())));
    h.crash(Keep::none, Keep::none);
    h.open();
  }
}

// Rows 1000000, 1000001, … of which nothing can be read.
void put_empty_rows(VolumeHarness& h, std::size_t count) {
  h.close();
  h.with_database([&h, count](Database& database) {
    leveldb::WriteBatch batch;
    for (std::size_t i = 0; i < count; ++i) {
      batch.Put(register_row_key(h.object(std::to_string(1'000'000 + i))), "");
    }
    REQUIRE(database.write(batch));
  });
  h.open();
}

TEST_CASE("a long run of tombstones ends a page early") {
  VolumeHarness h;
  h.fresh();
  put_empty_rows(h, limits::kScanRowsMax + 10);
  auto request = h.scan_request();
  request->partition_count = 16;
  request->partition_mask = 0;
  const auto reply = h.scan(request);
  CHECK(keys_of(reply).empty());
  CHECK(reply->covered_to == std::to_string(1'000'000 + limits::kScanRowsMax));
}

TEST_CASE("a list of registers that ends early in a long run of others goes on behind it") {
  VolumeHarness h;
  h.fresh();
  store_all(h, {"z"}, ValueKind::tombstone);
  put_empty_rows(h, limits::kScanBatchMax + 10);
  RegisterListRequest request;
  request.kind = RowKind::object;
  request.only = ValueKind::tombstone;
  request.rows_max = 100;
  auto page = h.run(h.volume->list_registers(request, h.later()));
  REQUIRE(page);
  CHECK(page->rows.empty());
  REQUIRE(page->covered);
  CHECK(page->covered->key == std::to_string(1'000'000 + limits::kScanBatchMax - 1));
  request.after = page->covered;
  page = h.run(h.volume->list_registers(request, h.later()));
  REQUIRE(page);
  REQUIRE(page->rows.size() == 1);
  CHECK(page->rows.front().key == h.object("z"));
  CHECK_FALSE(page->covered);
}

}  // namespace
}  // namespace penstock
