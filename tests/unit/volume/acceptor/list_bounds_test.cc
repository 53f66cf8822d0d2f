// What one answer of a volume may weigh, whatever stands in its rows: it must fit into a frame.
#include "penstock/row_key.h"
#include "server/transport/wire.h"
#include "server/volume/acceptor/register_row.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

constexpr std::size_t kOneRow = limits::kValueBytesMax + 4 * limits::kKiB;
const std::string kLongestKey(limits::kKeyBytesMax, 'k');

using PutRows = std::function<void(leveldb::WriteBatch&, std::size_t)>;
void put_rows(VolumeHarness& h, const PutRows& put) {
  h.fresh();
  h.close();
  h.with_database([&put](Database& database) {
    for (std::size_t i = 0; i < limits::kPartsMax; ++i) {
      leveldb::WriteBatch batch;
      put(batch, i);
      REQUIRE(database.write(batch));
    }
  });
  h.open();
}

// All parts of an upload of the longest key.
void put_parts(VolumeHarness& h) {
  put_rows(h, [&h](leveldb::WriteBatch& batch, std::size_t i) {
    const RegisterKey key = h.part(kLongestKey, static_cast<std::uint16_t>(i + 1));
    RegisterValue value = h.value(i + 1, ValueKind::part);
    value.summary.assign(300, 's');
    value.payload.assign(300, 'p');
    auto encoded = std::make_shared<const std::string>(encode(key, value));
    const auto row = make_row(h.ballot(1), h.round(), std::move(encoded));
    REQUIRE(row);
    const std::string row_key = register_row_key(key);
    batch.Put(row_key, encode_row(row_key, **row));
  });
}

template <class Reply>
void check_weight(const Reply& reply) {
  const std::size_t bytes = wire::encode(reply).size();
  CHECK(bytes <= limits::kReplyBytesMax + kOneRow);
  CHECK(bytes <= wire::kFieldsBytesMax);
}

}  // namespace

TEST_CASE("a scan of 10,000 parts with the longest key comes in pages that fit into frames") {
  VolumeHarness h;
  put_parts(h);
  const struct {
    bool summaries, payloads;
  } cases[] = {{false, false}, {true, false}, {true, true}};
  for (const auto& wanted : cases) {
    CAPTURE(wanted.summaries);
    CAPTURE(wanted.payloads);
    std::size_t rows = 0, pages = 0;
    std::string last, start;
    do {
      auto request = h.scan_request(RowKind::part);
      request->rows_max = limits::kScanBatchMax;
      request->summaries = wanted.summaries;
      request->payloads = wanted.payloads;
      request->start = start;
      const auto reply = h.scan(request);
      REQUIRE(reply);
      REQUIRE(!reply->rows.empty());
      check_weight(*reply);
      CHECK(reply->rows.front().key > last);
      last = reply->rows.back().key;
      rows += reply->rows.size();
      ++pages;
      if (!reply->covered_to.empty()) CHECK(reply->covered_to > last);
      start = reply->covered_to;
    } while (!start.empty());
    CHECK(rows == limits::kPartsMax);
    CHECK(pages > 2);
  }
}

TEST_CASE("a list of 10,000 registers with the longest key comes in pages that fit into frames") {
  VolumeHarness h;
  put_parts(h);
  RegisterListRequest request;
  request.kind = RowKind::part;
  request.rows_max = limits::kScanBatchMax;
  std::size_t rows = 0, pages = 0;
  do {
    auto page = h.run(h.volume->list_registers(request, h.later()));
    REQUIRE(page);
    check_weight(*page);
    for (const RegisterEntry& row : page->rows) CHECK(row.key.part == ++rows);
    ++pages;
    request.after = std::move(page->covered);
  } while (request.after);
  CHECK(rows == limits::kPartsMax);
  CHECK(pages > 2);
}

TEST_CASE("a list of 10,000 hints with the longest key comes in pages that fit into frames") {
  VolumeHarness h;
  const WallTime due = h.clock.wall();
  put_rows(h, [&h, due](leveldb::WriteBatch& batch, std::size_t i) {
    const auto request = h.accept_request(h.object(kLongestKey), h.ballot(1), h.value(1));
    const Hint hint{WriteId{1, i}, due, std::string(32 * 16, 'l'), std::string(32, 'u')};
    const std::string key = hint_row_key({hint.due, hint.write_id, kEverySlot});
    batch.Put(key, encode_hint(key, *request, hint, CommitStamp()));
  });
  HintListRequest request;
  request.due_until = due;
  request.rows_max = limits::kScanBatchMax;
  std::size_t hints = 0, pages = 0;
  while (true) {
    const auto page = h.run(h.volume->list_hints(request, h.later()));
    REQUIRE(page);
    if (page->hints.empty()) break;
    check_weight(*page);
    for (const StoredHint& hint : page->hints) CHECK(hint.name.write_id.low == hints++);
    ++pages;
    request.after = page->hints.back().name;
  }
  CHECK(hints == limits::kPartsMax);
  CHECK(pages > 2);
}

TEST_CASE("an accept with more hints than its bounds allow is refused") {
  VolumeHarness h;
  h.fresh();
  auto request = h.accept_request(h.object(kLongestKey), h.ballot(1), h.value(1));
  const Hint hint{WriteId{1, 1}, h.clock.wall(), std::string(100, 'l'), ""};
  const std::size_t fit = limits::kHintBytesPerAcceptMax / stored_bytes(request->key, hint);
  request->hints.assign(fit + 1, hint);
  CHECK(h.accept(request).error().code == Errc::overloaded);
  request->hints.resize(fit);
  CHECK(h.accept(request)->accepted);
}

}  // namespace penstock
