#include "server/volume/acceptor/register_store.h"

#include "penstock/row_key.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

std::uint64_t syncs(const VolumeHarness& h) { return h.disk.calls(FakeDisk::Call::sync); }

// Calls that are under way together; each answer is kept when it comes.
template <class T>
class Together {
 public:
  explicit Together(VolumeHarness& harness) : harness_(harness) {}
  void start(Task<T> task) {
    auto answer = std::make_shared<std::optional<Result<T>>>();
    answers_.push_back(answer);
    auto ended = [answer](std::exception_ptr, Result<T> result) { answer->emplace(result); };
    boost::asio::co_spawn(harness_.io, std::move(task), std::move(ended));
  }
  std::vector<Result<T>> all() {
    harness_.io.restart();
    harness_.io.run();
    std::vector<Result<T>> results;
    for (const auto& answer : answers_) {
      REQUIRE(answer->has_value());
      results.push_back(**answer);
    }
    return results;
  }

 private:
  VolumeHarness& harness_;
  std::vector<std::shared_ptr<std::optional<Result<T>>>> answers_;
};

TEST_CASE("what was accepted is read, with its inline bytes, before and after a restart") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  const Ballot at = h.ballot(1);
  const std::string body(3000, 'b');
  h.store(key, at, h.value(1), body);
  for (int start = 0; start < 3; ++start) {
    const auto read = h.read(key, ReadWant::value_and_inline);
    REQUIRE(read);
    CHECK(read->ballot == at);
    CHECK(read->epoch == Epoch{1});
    CHECK(decode_value(key, *read->value)->op_id == h.value(1).op_id);
    REQUIRE(read->inline_bytes);
    CHECK(*read->inline_bytes == body);
    if (start == 1) h.crash(Keep::none, Keep::none);
    h.close();
    h.open();
  }
}

TEST_CASE("each want gets its part of the row, and an absent key has ballot zero") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  h.store(key, h.ballot(1), h.value(1), "inline");
  CHECK(h.read(key, ReadWant::ballot)->value == nullptr);
  CHECK(h.read(key, ReadWant::value)->value != nullptr);
  CHECK(h.read(key, ReadWant::value)->inline_bytes == nullptr);
  const auto absent = h.read(h.object("other"));
  REQUIRE(absent);
  CHECK(absent->ballot.is_zero());
  CHECK(absent->value == nullptr);
  const auto prepared = h.prepare(h.object("third"), h.ballot(2));
  REQUIRE(prepared);
  CHECK(prepared->promised);
  CHECK(prepared->accepted.ballot.is_zero());
}

TEST_CASE("what is in memory is answered on the calling thread, what is not is not") {
  VolumeHarness h;
  auto options = VolumeHarness::options();
  options.database.block_cache_bytes = 0;
  REQUIRE(h.format());
  h.open(options);
  const RegisterKey key = h.object("key");
  const auto bare = h.read_request(key);
  const auto whole = h.read_request(key, ReadWant::value_and_inline);
  h.store(key, h.ballot(1), h.value(1), "inline");
  CHECK(*(*h.volume->read_now(*whole))->inline_bytes == "inline");
  h.close();
  h.disk.set_cold(true);
  h.open(options);
  CHECK(!h.volume->read_now(*bare));
  CHECK(*h.read(key, ReadWant::value_and_inline)->inline_bytes == "inline");
  h.disk.set_cold(false);
  CHECK(*(*h.volume->read_now(*whole))->inline_bytes == "inline");
  CHECK((*h.volume->read_now(*h.read_request(h.object("other"))))->ballot.is_zero());
  h.disk.set_cold(true);
  CHECK(h.volume->read_now(*bare));  // the row is in the cache, its inline bytes are not
  CHECK(!h.volume->read_now(*whole));
  CHECK(*h.read(key, ReadWant::value_and_inline)->inline_bytes == "inline");
}

TEST_CASE("the record cache keeps to its bound, and inline bytes take nothing of it") {
  VolumeHarness h;
  auto options = VolumeHarness::options();
  options.registers.cache_bytes = 64 * limits::kKiB;
  options.database.write_buffer_bytes = 64 * limits::kKiB;
  REQUIRE(h.format());
  h.open(options);
  const auto name = [](int number) { return "key" + std::to_string(number); };
  constexpr int kRows = 1500;  // three times what the memtables hold
  for (int i = 0; i < kRows; ++i) {
    h.store(h.object(name(i)), h.ballot(1), h.value(1), std::string(4096, 'x'));
  }
  REQUIRE(h.read(h.object("absent")));
  h.disk.set_cold(true);
  int hot = 0;
  for (int i = 0; i < kRows; ++i) {
    hot += h.volume->read_now(*h.read_request(h.object(name(i)))).has_value();
  }
  CHECK(hot > 100);
  CHECK(hot < kRows / 2);
  CHECK(*h.read(h.object("key0"), ReadWant::value_and_inline)->inline_bytes ==
        std::string(4096, 'x'));
}

TEST_CASE("writes that wait together share one sync") {
  VolumeHarness h;
  h.fresh();
  h.store(h.object("warm"), h.ballot(1), h.value(1));
  const auto before = syncs(h);
  Together<AcceptReply> calls(h);
  for (std::uint64_t i = 0; i < 100; ++i) {
    calls.start(h.volume->accept(
        h.accept_request(h.object("key" + std::to_string(i)), h.ballot(1), h.value(i + 1)),
        h.later()));
  }
  for (const auto& reply : calls.all()) CHECK((reply && reply->accepted));
  CHECK(syncs(h) - before <= 2);
}

TEST_CASE("racing accepts of one key are decided one after another") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  Together<AcceptReply> calls(h);
  for (const std::uint64_t ahead : {10, 30, 20, 30, 40}) {
    calls.start(
        h.volume->accept(h.accept_request(key, h.ballot(ahead), h.value(ahead)), h.later()));
  }
  const auto replies = calls.all();
  CHECK(replies[0]->accepted);
  CHECK(replies[1]->accepted);
  CHECK_FALSE(replies[2]->accepted);
  CHECK(replies[2]->demand_ballot.counter == h.now_us() + 31);
  CHECK(replies[3]->accepted);  // a repeat of the second
  CHECK(replies[4]->accepted);
  CHECK(h.read(key)->ballot == h.ballot(40));
}

TEST_CASE("a prepare of a key whose accept is queued sees the accept") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  REQUIRE(h.prepare(key, h.ballot(5))->promised);  // the row is in the cache now
  Together<AcceptReply> accepts(h);
  Together<PrepareReply> prepares(h);
  accepts.start(h.volume->accept(h.accept_request(key, h.ballot(5), h.value(5)), h.later()));
  h.io.restart();
  h.io.poll_one();
  accepts.all();
  prepares.start(h.volume->prepare(h.prepare_request(key, h.ballot(6)), h.later()));
  const auto reply = prepares.all().front();
  REQUIRE(reply);
  CHECK(reply->promised);
  CHECK(reply->accepted.ballot == h.ballot(5));
}

TEST_CASE("a promise outlives a crash by way of the ceiling") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  REQUIRE(h.prepare(key, h.ballot(100))->promised);
  h.crash(Keep::none, Keep::none);
  h.open();
  const auto late = h.accept(key, h.ballot(50), h.value(1));
  REQUIRE(late);
  CHECK_FALSE(late->accepted);
  // The demand leads past the floor in one step.
  const auto refused = h.prepare(key, h.ballot(200));
  REQUIRE(refused);
  CHECK_FALSE(refused->promised);
  CHECK(refused->demand_ballot.counter > h.now_us() + 9'000'000);
  CHECK(h.prepare(key, refused->demand_ballot)->promised);
}

TEST_CASE("no promise above the ceiling is answered before the ceiling is synced") {
  VolumeHarness h;
  h.fresh();
  h.disk.fail(FakeDisk::Call::sync, 1, FakeDisk::Fault::io);
  const auto reply = h.prepare(h.object("key"), h.ballot(100));
  CHECK_FALSE((reply.has_value() && reply->promised));
}

TEST_CASE("the ceiling costs one sync for many promises and is raised before it is reached") {
  VolumeHarness h;
  h.fresh();
  REQUIRE(h.prepare(h.object("warm"), h.ballot(1))->promised);
  const auto before = syncs(h);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(h.prepare(h.object("key" + std::to_string(i)), h.ballot(2))->promised);
  }
  CHECK(syncs(h) == before);
  const RegisterKey hot = h.object("hot");
  REQUIRE(h.prepare(hot, h.ballot(3))->promised);
  h.clock.advance(std::chrono::seconds(6));
  REQUIRE(h.prepare(hot, h.ballot(4))->promised);  // answered at once, extends in the background
  h.io.restart();
  h.io.run();
  CHECK(syncs(h) == before + 1);
  h.clock.advance(std::chrono::seconds(8));
  REQUIRE(h.prepare(hot, h.ballot(5))->promised);
}

TEST_CASE("calls under another epoch are refused, and a new epoch is durable") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  REQUIRE(h.run(h.volume->set_epochs({{kGroup, Epoch{2}, {}}})));
  CHECK(code_of(h.prepare(key, h.ballot(1))) == Errc::stale_epoch);
  CHECK(code_of(h.accept(key, h.ballot(1), h.value(1))) == Errc::stale_epoch);
  CHECK(code_of(h.read(key)) == Errc::stale_epoch);
  CHECK(code_of(h.scan(h.scan_request())) == Errc::stale_epoch);
  CHECK(code_of(h.drop(key, h.ballot(1))) == Errc::stale_epoch);
  h.crash(Keep::none, Keep::none);
  auto opened = h.try_open();
  REQUIRE(opened);
  h.volume = std::move(*opened);
  CHECK(code_of(h.read(key)) == Errc::stale_epoch);
  CHECK(code_of(h.run(h.volume->set_epochs({{kGroup, Epoch{1}, {}}}))) == Errc::stale_epoch);
}

TEST_CASE("a new record removes the inline bytes of the one it replaces") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  h.store(key, h.ballot(1), h.value(1), "first");
  h.store(key, h.ballot(2), h.value(2), "second");
  h.store(key, h.ballot(3), h.value(2), "second");  // a write-back
  CHECK(*h.read(key, ReadWant::value_and_inline)->inline_bytes == "second");
  h.store(key, h.ballot(4), h.value(4));
  h.close();
  h.with_database([](Database& database) {
    for (int i = 0; i < 20; ++i) {  // the next file begins
      leveldb::WriteBatch batch;
      batch.Put("n", std::string(64 * limits::kKiB, 'n'));
      REQUIRE(database.write(batch));
    }
    CHECK(database.log().usage().live_bytes == 0);
  });
}

TEST_CASE("a write-back need not send inline bytes that are held, a stranger must") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  h.store(key, h.ballot(1), h.value(1), "bytes");
  auto again = h.accept_request(key, h.ballot(2), h.value(1), "bytes");
  again->inline_bytes = nullptr;
  CHECK(h.accept(again)->accepted);
  CHECK(*h.read(key, ReadWant::value_and_inline)->inline_bytes == "bytes");
  auto other = h.accept_request(key, h.ballot(3), h.value(3), "other");
  other->inline_bytes = nullptr;
  CHECK(code_of(h.accept(other)) == Errc::invalid);
}

TEST_CASE("a drop removes exactly the tombstone it names and bars older ballots for ever") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  h.store(key, h.ballot(1), h.value(1));
  CHECK(code_of(h.drop(key, h.ballot(1))) == Errc::refused);  // no tombstone: it stays
  CHECK(h.read(key)->ballot == h.ballot(1));
  h.store(key, h.ballot(9), h.value(2, ValueKind::tombstone));
  CHECK(code_of(h.drop(key, h.ballot(8))) == Errc::refused);  // another ballot: it stays
  CHECK(h.read(key)->ballot == h.ballot(9));
  CHECK(h.drop(key, h.ballot(9)));
  CHECK(h.read(key)->ballot.is_zero());
  CHECK(h.drop(key, h.ballot(9)));
  CHECK_FALSE(h.accept(key, h.ballot(9, 99), h.value(3))->accepted);
  CHECK(h.prepare(key, h.ballot(20))->horizon == h.now_us() + 9);
  h.crash(Keep::none, Keep::none);
  h.open();
  CHECK(h.read(key)->ballot.is_zero());
  CHECK(h.prepare(key, h.ballot(20'000'000))->horizon == h.now_us() + 9);
}

TEST_CASE("a part needs its upload's open row, except in write-backs and tombstones") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey part = h.part("key", 1);
  const RegisterKey upload = h.upload("key");
  const RegisterValue value = h.value(1, ValueKind::part);
  CHECK(code_of(h.accept(part, h.ballot(1), value)) == Errc::upload_missing);
  h.store(upload, h.ballot(1), h.value(2, ValueKind::upload_open));
  h.store(part, h.ballot(2), value);
  std::uint64_t ahead = 10;
  for (const ValueKind closed : {ValueKind::upload_completing, ValueKind::upload_aborted,
                                 ValueKind::upload_done, ValueKind::tombstone}) {
    h.store(upload, h.ballot(++ahead), h.value(3, closed));
    CHECK(code_of(h.accept(part, h.ballot(50), value)) == Errc::upload_not_open);
  }
  auto identity = h.accept_request(part, h.ballot(3), value);
  identity->round.adds_nothing = true;
  CHECK(h.accept(identity)->accepted);
  h.store(part, h.ballot(4), h.value(4, ValueKind::tombstone));
}

TEST_CASE("a part that races the end of its upload is decided on what was synced") {
  VolumeHarness h;
  h.fresh();
  h.store(h.upload("key"), h.ballot(1), h.value(1, ValueKind::upload_open));
  Together<AcceptReply> calls(h);
  calls.start(h.volume->accept(
      h.accept_request(h.upload("key"), h.ballot(2), h.value(2, ValueKind::upload_aborted)),
      h.later()));
  calls.start(h.volume->accept(
      h.accept_request(h.part("key", 1), h.ballot(2), h.value(3, ValueKind::part)), h.later()));
  const auto replies = calls.all();
  CHECK(replies[0]->accepted);
  CHECK(code_of(replies[1]) == Errc::upload_not_open);
}

TEST_CASE("hints are stored with the accept that frees the blob") {
  VolumeHarness h;
  h.fresh();
  auto request = h.accept_request(h.object("key"), h.ballot(1), h.value(1));
  const Hint hint{WriteId{4, 5}, h.clock.wall(), "locations", ""};
  request->hints.push_back(hint);
  REQUIRE(h.accept(request)->accepted);
  h.close();
  h.with_database([&hint](Database& database) {
    const auto row = database.get(hint_row_key({hint.due, hint.write_id, kEverySlot}));
    REQUIRE(row);
    CHECK(*row);
  });
}

TEST_CASE("hints are listed by due time, read by name, counted and dropped") {
  VolumeHarness h;
  h.fresh();
  const WallTime now = h.clock.wall();
  for (int i = 1; i <= 3; ++i) {
    auto request = h.accept_request(h.object("key"), h.ballot(i), h.value(i));
    request->round.partitions = 16;
    request->hints.push_back(Hint{WriteId{4, 5}, now + std::chrono::seconds(i), "where", "up"});
    REQUIRE(h.accept(request)->accepted);
  }
  HintListRequest request;
  request.due_until = now + std::chrono::seconds(2);
  request.count = true;
  auto page = h.run(h.volume->list_hints(request, h.later()));
  REQUIRE(page);
  CHECK(page->count == 3);
  REQUIRE(page->hints.size() == 2);
  const StoredHint& first = page->hints[0];
  CHECK(first.name == HintName{now + std::chrono::seconds(1), WriteId{4, 5}});
  CHECK(first.ballot == h.ballot(1));
  CHECK(first.bucket == h.object("key").bucket);
  CHECK(first.partitions == 16);
  CHECK(first.key == "key");
  CHECK(first.upload_id == "up");
  CHECK(first.locations == "where");
  request.after = first.name;
  CHECK(h.run(h.volume->list_hints(request, h.later()))->hints.size() == 1);
  CHECK(h.run(h.volume->read_hint(first.name, h.later())).value() == h.ballot(1));
  std::vector<HintName> names{first.name};
  CHECK(h.run(h.volume->drop_hints(names, h.later())));
  CHECK(h.run(h.volume->drop_hints(names, h.later())));
  CHECK(h.run(h.volume->read_hint(first.name, h.later())).value() == Ballot{});
}

TEST_CASE("registers of all buckets are listed with what finds their group again") {
  VolumeHarness h;
  h.fresh();
  for (int i = 1; i <= 3; ++i) {
    auto request = h.accept_request(h.object("key" + std::to_string(i)), h.ballot(i), h.value(i));
    request->round.partitions = 16;
    REQUIRE(h.accept(request)->accepted);
  }
  RegisterListRequest request;
  request.kind = RowKind::object;
  request.rows_max = 2;
  auto page = h.run(h.volume->list_registers(request, h.later()));
  REQUIRE(page);
  REQUIRE(page->rows.size() == 2);
  CHECK(page->rows[0].key == h.object("key1"));
  CHECK(page->rows[0].partitions == 16);
  CHECK(page->rows[0].ballot == h.ballot(1));
  CHECK(page->covered == h.object("key2"));
  request.after = page->covered;
  page = h.run(h.volume->list_registers(request, h.later()));
  REQUIRE(page);
  CHECK(page->rows.size() == 1);
  CHECK_FALSE(page->covered);
  request.after.reset();
  request.only = ValueKind::tombstone;
  CHECK(h.run(h.volume->list_registers(request, h.later()))->rows.empty());
}

TEST_CASE("senseless requests are refused before they reach the queue") {
  VolumeHarness h;
  h.fresh();
  CHECK(code_of(h.prepare(h.object(""), h.ballot(1))) == Errc::invalid);
  CHECK(code_of(h.prepare(h.object("k"), Ballot{})) == Errc::invalid);
  auto accept = h.accept_request(h.object("k"), h.ballot(1), h.value(1));
  accept->value = std::make_shared<const std::string>("nonsense");
  CHECK(code_of(h.accept(accept)) == Errc::invalid);
  accept = h.accept_request(h.object("k"), h.ballot(1), h.value(1), "inline");
  accept->inline_bytes = std::make_shared<const std::string>("longer than said");
  CHECK(code_of(h.accept(accept)) == Errc::invalid);
  auto scan = h.scan_request();
  scan->partition_count = 0;
  CHECK(code_of(h.scan(scan)) == Errc::invalid);
}

TEST_CASE("a call that waited past its deadline is not done") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  const Deadline past = h.clock.boot() - std::chrono::seconds(1);
  const auto reply = h.run(h.volume->accept(h.accept_request(key, h.ballot(1), h.value(1)), past));
  CHECK(code_of(reply) == Errc::timeout);
  CHECK(h.read(key)->ballot.is_zero());
}

// Of so many calls at once some are refused, and no more than are too many.
template <class T>
void check_refused(Together<T> calls, std::size_t over) {
  std::size_t overloaded = 0;
  for (const auto& reply : calls.all()) {
    if (reply) continue;
    CHECK(code_of(reply) == Errc::overloaded);
    ++overloaded;
  }
  CHECK(overloaded > 0);
  CHECK(overloaded <= over);
}

TEST_CASE("a full queue refuses at once") {
  VolumeHarness h;
  h.fresh();
  Together<AcceptReply> accepts(h);
  Together<Accepted> reads(h);
  constexpr std::size_t kOver = 10;
  for (std::size_t i = 0; i < limits::kVolumeQueueMax + kOver; ++i) {
    const RegisterKey key = h.object("key" + std::to_string(i));
    accepts.start(h.volume->accept(h.accept_request(key, h.ballot(1), h.value(1)), h.later()));
  }
  check_refused(std::move(accepts), kOver);
  h.close();
  auto options = VolumeHarness::options();
  options.database.block_cache_bytes = 0;
  options.database.write_buffer_bytes = 64 * limits::kKiB;  // so most rows are in tables
  h.disk.set_cold(true);                                    // which waits for the disk
  h.open(options);
  for (std::size_t i = 0; i < 2 * limits::kVolumeQueueMax; ++i) {
    const RegisterKey key = h.object("key" + std::to_string(i % limits::kVolumeQueueMax));
    reads.start(h.volume->read(h.read_request(key), h.later()));
  }
  check_refused(std::move(reads), limits::kVolumeQueueMax);
}

TEST_CASE("a far future prepare is refused with the counter that would pass") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  auto request = h.prepare_request(key, h.ballot(3'600'000'000));
  const auto refused = h.prepare(request);
  REQUIRE(refused);
  CHECK_FALSE(refused->promised);
  CHECK(refused->demand_ballot.counter < h.now_us());
  request->round.follows = true;
  CHECK(h.prepare(request)->promised);
}

}  // namespace
}  // namespace penstock
