// What a start makes of what the last one left: rows that must still be there, and what it refuses.
#include "penstock/row_key.h"
#include "server/volume/disk/sealed_row.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

// What a start finds of `key`.
std::string inline_bytes_found(VolumeHarness& h, const RegisterKey& key) {
  h.close();
  h.open();
  const auto read = h.read(key, ReadWant::value_and_inline);
  if (!read) return "error: " + read.error().context;
  return read->inline_bytes ? *read->inline_bytes : std::string("none");
}

std::string only_log(VolumeHarness& h) {
  const auto logs = log_files(h.disk);
  REQUIRE(logs.size() == 1);
  return logs.front();
}

}  // namespace

TEST_CASE("a log that cannot be begun for want of descriptors refuses one batch and no more") {
  VolumeHarness h;
  h.fresh();
  h.close();
  VolumeOptions options = VolumeHarness::options();
  options.database.log_file_bytes_min = 64 * limits::kKiB;
  h.open(options);
  // The next one is made in advance: that is tried again and again.
  h.disk.fail(FakeDisk::Call::create, 1, FakeDisk::Fault::scarce, true);
  int refused = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto key = h.object("key" + std::to_string(i));
    const auto accepted = h.accept(key, h.ballot(i), h.value(i), std::string(4000, 'x'));
    if (!accepted) {
      ++refused;
      CHECK(accepted.error().code == Errc::overloaded);
      h.disk.heal();
      h.store(key, h.ballot(i), h.value(i), std::string(4000, 'x'));
    }
  }
  CHECK(refused == 1);
  CHECK(h.volume->status().state == VolumeStatus::State::open);
  h.close();
  h.open();
  for (std::uint64_t i = 0; i < 60; ++i) {
    CHECK(h.read(h.object("key" + std::to_string(i)))->ballot == h.ballot(i));
  }
}

TEST_CASE("an accept of any size is durable when it is acknowledged") {
  for (std::size_t inline_bytes = 20'000; inline_bytes <= 64'000; inline_bytes += 2'000) {
    CAPTURE(inline_bytes);
    VolumeHarness h;
    h.fresh();
    const RegisterKey key = h.object("key");
    const Ballot at = h.ballot(1);
    RegisterValue value = h.value(1);
    value.payload = std::string(40'000, 'p');
    h.store(key, at, value, std::string(inline_bytes, 'i'));
    h.crash(Keep::none, Keep::none);
    h.open();
    CHECK(h.read(key)->ballot == at);
  }
}

TEST_CASE("the horizon is that of the latest tombstone, in whatever order they are dropped") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  for (const std::uint64_t ahead : {1, 9}) {
    h.store(h.object(std::to_string(ahead)), h.ballot(ahead), h.value(2, ValueKind::tombstone));
  }
  CHECK(h.drop(h.object("9"), h.ballot(9)));
  CHECK(h.drop(h.object("1"), h.ballot(1)));
  CHECK(h.prepare(key, h.ballot(20))->horizon == h.now_us() + 9);
  h.crash(Keep::none, Keep::none);
  h.open();
  CHECK(h.prepare(key, h.ballot(20'000'000))->horizon == h.now_us() + 9);
}

TEST_CASE("a round that repeats a record keeps its inline bytes on the disk, sent again or not") {
  for (const bool sent : {true, false}) {
    for (const bool closed_between : {true, false}) {
      CAPTURE(sent);
      CAPTURE(closed_between);
      VolumeHarness h;
      h.fresh();
      const RegisterKey key = h.object("key");
      h.store(key, h.ballot(1), h.value(1), "bytes");
      if (closed_between) {
        h.close();
        h.open();
      }
      auto again = h.accept_request(key, h.ballot(60'000'000), h.value(1), "bytes");
      again->round.adds_nothing = true;
      if (!sent) again->inline_bytes = nullptr;
      REQUIRE(h.accept(again)->accepted);
      CHECK(inline_bytes_found(h, key) == "bytes");
      h.store(key, h.ballot(120'000'000), h.value(2), "other");
      CHECK(inline_bytes_found(h, key) == "other");
    }
  }
}

TEST_CASE("a fence is never lowered, by a scan or by what a joining volume takes over") {
  VolumeHarness h;
  h.fresh();
  const auto fence = [&h](std::uint64_t number) {
    auto request = h.scan_request();
    request->fence = BucketNumber{number};
    request->round.pass_fence = true;
    return h.scan(request);
  };
  REQUIRE(fence(7));
  REQUIRE(fence(3));
  AdoptRequest request;
  request.map = std::make_shared<const std::string>(h.volume->get_map());
  request.epochs = {GroupEpoch{kGroup, Epoch{1}, {}}};
  request.join.fences = {{BucketId{9}, BucketNumber{2}},
                         {kBucket, BucketNumber{4}},
                         {BucketId{2}, BucketNumber{6}},
                         {BucketId{300}, BucketNumber{1}}};
  const auto shared = std::make_shared<const AdoptRequest>(request);
  REQUIRE(h.run(h.volume->adopt(shared, h.later())));
  const std::vector<std::pair<BucketId, BucketNumber>> expected{{BucketId{2}, BucketNumber{6}},
                                                                {kBucket, BucketNumber{7}},
                                                                {BucketId{9}, BucketNumber{2}},
                                                                {BucketId{300}, BucketNumber{1}}};
  for (int start = 0; start < 2; ++start) {
    CAPTURE(start);
    CHECK(h.run(h.volume->read_join_state(h.later()))->fences == expected);
    auto stale = h.read_request(h.object("key"));
    stale->round.bucket_number = BucketNumber{7};
    CHECK(code_of(h.run(h.volume->read(stale, h.later()))) == Errc::stale_bucket);
    h.crash(Keep::none, Keep::none);
    h.open();
  }
}

TEST_CASE("a horizon is never lowered, by a drop or by what a joining volume takes over") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  const auto drop = [&](Ballot at) {
    h.store(key, at, h.value(2, ValueKind::tombstone));
    REQUIRE(h.drop(key, at));
  };
  drop(h.ballot(50));
  AdoptRequest request;
  request.map = std::make_shared<const std::string>("joint");
  for (const std::uint64_t ahead : {40, 60}) {
    request.join.horizon = h.ballot(ahead).counter;
    const auto shared = std::make_shared<const AdoptRequest>(request);
    REQUIRE(h.run(h.volume->adopt(shared, h.later())));
  }
  drop(h.ballot(61));
  CHECK_FALSE(h.accept(h.object("other"), h.ballot(61, 99), h.value(3))->accepted);
  CHECK(h.accept(h.object("other"), h.ballot(62), h.value(3))->accepted);
  for (int start = 0; start < 2; ++start) {
    CAPTURE(start);
    CHECK(h.run(h.volume->read_join_state(h.later()))->horizon == h.ballot(61).counter);
    h.crash(Keep::none, Keep::none);
    h.open();
  }
}

TEST_CASE("a note is there at once and after a start, also an empty one") {
  VolumeHarness h;
  h.fresh();
  REQUIRE(h.run(h.volume->put_note("peer/8", "start 3")));
  REQUIRE(h.run(h.volume->put_note("empty", "")));
  const std::string longest(kNoteNameBytesMax, 'n');
  REQUIRE(h.run(h.volume->put_note(longest, std::string(kNoteBytesMax, 'b'))));
  CHECK(code_of(h.run(h.volume->put_note(longest + "n", "x"))) == Errc::invalid);
  for (const char* name : {"", "8", "/x", "a b", "a.b", "Peer", "a\n", "a\xc3\xa9", "starts/",
                           "starts/8", "failed/000000000000000g", "failed/00000000000000001"}) {
    CAPTURE(name);
    CHECK(code_of(h.run(h.volume->put_note(name, "x"))) == Errc::invalid);
    CHECK(!h.volume->get_note(name));
  }
  for (int start = 0; start < 2; ++start) {
    CAPTURE(start);
    CHECK(h.volume->get_note("peer/8") == "start 3");
    CHECK(h.volume->get_note("empty") == "");
    CHECK(h.volume->get_note(longest)->size() == kNoteBytesMax);
    CHECK(h.volume->notes().size() == 3);
    h.crash(Keep::none, Keep::none);
    h.open();
  }
}

TEST_CASE("of notes there are so many and no more, and those there are can be changed") {
  VolumeHarness h;
  REQUIRE(h.format());
  h.with_database([](Database& database) {
    leveldb::WriteBatch batch;
    for (std::size_t n = 1; n < kNotesMax; ++n) {
      const RowOp row = note_row("n" + std::to_string(n), "x");
      batch.Put(row.key, *row.value);
    }
    REQUIRE(database.write(batch));
  });
  h.open();
  REQUIRE(h.run(h.volume->put_note("last", "x")));
  CHECK(code_of(h.run(h.volume->put_note("onemore", "x"))) == Errc::overloaded);
  REQUIRE(h.run(h.volume->put_note("n1", "changed")));
  CHECK(h.volume->get_note("n1") == "changed");
  CHECK(h.volume->notes().size() == kNotesMax);
}

TEST_CASE("rows about the volume itself that are not understood keep it out") {
  const auto row = [](const std::string& name, const std::string& payload) {
    const std::string key = meta_row_key(name);
    return RowOp{key, seal_row(key, payload)};
  };
  const auto epoch = [](std::size_t group) {
    return epoch_row({GroupId{static_cast<std::uint32_t>(group)}, Epoch{1}, {}});
  };
  using namespace std::string_literals;
  const std::string eight(8, '\1');
  const std::string epoch_bytes(8 + 32, '\1');
  const struct {
    RowOp row;
    bool opens;
  } cases[] = {
      {epoch(kGroupsMax - 1), true},
      {epoch(kGroupsMax), false},
      {row("epoch/\1\0\0\0"s, epoch_bytes), true},
      {row("epoch/\1\0\0"s, epoch_bytes), false},
      {row("epoch/\1\0\0\0\0"s, epoch_bytes), false},
      {row("epoch/\1\0\0\0"s, eight), false},
      {row("epoch/\1\0\0\0"s, epoch_bytes + "x"), false},
      {row("fence/abcdefgh", eight), true},
      {row("fence/abcdefg", eight), false},
      {row("fence/abcdefghi", eight), false},
      {row("fence/abcdefgh", "short"), false},
      {row("ceiling", "short"), false},
      {row("ceiling", eight + "long"), false},
      {row("written by a newer version", eight), false},
      {{meta_row_key("ceiling"), "not sealed"}, false},
  };
  for (const auto& test : cases) {
    CAPTURE(test.row.key);
    VolumeHarness h;
    REQUIRE(h.format());
    h.with_database([&test](Database& database) {
      leveldb::WriteBatch batch;
      batch.Put(test.row.key, *test.row.value);
      REQUIRE(database.write(batch));
    });
    const auto opened = h.try_open();
    CHECK(bool(opened) == test.opens);
    if (!opened) CHECK(code_of(opened) == Errc::corrupt);
  }
}

TEST_CASE("epochs that a start would not understand are refused before they are stored") {
  VolumeHarness h;
  h.fresh();
  const auto set = [&h](std::size_t group, std::uint64_t epoch) {
    const GroupEpoch wanted{GroupId{static_cast<std::uint32_t>(group)}, Epoch{epoch}, {}};
    return h.run(h.volume->set_epochs({wanted}));
  };
  CHECK(set(kGroupsMax - 1, 1));
  CHECK(code_of(set(kGroupsMax, 1)) == Errc::invalid);
  CHECK(code_of(set(1, 0)) == Errc::invalid);
  h.close();
  CHECK(h.try_open());
}

TEST_CASE("a start that cannot read a part of the disk fails or finds everything") {
  std::uint64_t failed_starts = 0;
  bool met = true;
  for (std::uint64_t nth = 1; met; ++nth) {
    CAPTURE(nth);
    VolumeHarness h;
    h.fresh();
    h.store(h.object("in a table"), h.ballot(1), h.value(1));
    h.close();
    h.open();
    h.store(h.object("in a log"), h.ballot(60'000'000), h.value(2));
    REQUIRE(h.run(h.volume->put_note("note", "bytes")));
    h.close();
    const std::uint64_t before = h.disk.calls(FakeDisk::Call::read);
    h.disk.fail(FakeDisk::Call::read, nth, FakeDisk::Fault::io);
    {
      auto opened = h.try_open();
      met = h.disk.calls(FakeDisk::Call::read) - before >= nth;
      h.disk.heal();
      if (!opened) {
        ++failed_starts;
        CHECK((opened.error().code == Errc::io || opened.error().code == Errc::corrupt));
      } else {
        h.volume = std::move(*opened);
      }
    }
    if (!h.volume) h.open();
    CHECK(h.volume->get_note("note") == "bytes");
    CHECK(h.read(h.object("in a table"))->ballot == h.ballot(1));
    CHECK(h.read(h.object("in a log"))->ballot == h.ballot(60'000'000));
  }
  CHECK(failed_starts > 3);
}

TEST_CASE("a log that is torn although records follow in a later one keeps the volume out") {
  for (const bool records_follow : {true, false}) {
    CAPTURE(records_follow);
    VolumeHarness h;
    h.fresh();
    h.store(h.object("key"), h.ballot(1), h.value(1));
    h.crash(Keep::all, Keep::all);
    const std::string name = only_log(h);
    const std::string bytes = read_file(h.disk, name);
    REQUIRE(!bytes.empty());
    h.unwrite(name, h.used_of(name) - 3, h.used_of(name));
    auto later = h.disk.open("log/99999999.log", OpenMode::write_new).value();
    if (records_follow) REQUIRE(later->write_at(0, as_bytes(bytes)));
    const auto opened = h.try_open();
    CHECK(bool(opened) == !records_follow);
    if (!opened) CHECK(code_of(opened) == Errc::corrupt);
  }
}

TEST_CASE("an epoch is kept with what it stands for") {
  VolumeHarness h;
  h.fresh();
  GroupEpoch wanted{kGroup, Epoch{2}, {}};
  for (std::size_t i = 0; i < wanted.digest.size(); ++i) {
    wanted.digest[i] = static_cast<std::uint8_t>(i + 1);
  }
  REQUIRE(h.run(h.volume->set_epochs({wanted})));
  for (int start = 0; start < 2; ++start) {
    CAPTURE(start);
    auto request = h.read_request(h.object("key"));
    request->round.epoch = Epoch{2};
    CHECK(code_of(h.run(h.volume->read(request, h.later()))) == Errc::stale_epoch);
    request = h.read_request(h.object("key"));
    request->round.epoch = Epoch{2};
    request->round.digest = wanted.short_digest();
    CHECK(h.run(h.volume->read(request, h.later())));
    GroupEpoch other = wanted;
    other.digest.back() ^= 1;
    CHECK(code_of(h.run(h.volume->set_epochs({other}))) == Errc::stale_epoch);
    CHECK(h.run(h.volume->set_epochs({wanted})));
    h.crash(Keep::none, Keep::none);
    auto opened = h.try_open();
    REQUIRE(opened);
    h.volume = std::move(*opened);
  }
}

TEST_CASE("of two changes of the epochs at one time one is refused, and no epoch goes back") {
  VolumeHarness h;
  h.fresh();
  std::optional<Result<>> first;
  std::optional<Result<>> second;
  const auto begin = [&h](std::uint64_t epoch, std::optional<Result<>>& result) {
    const std::vector<GroupEpoch> wanted{GroupEpoch{kGroup, Epoch{epoch}, {}}};
    auto ended = [&result](std::exception_ptr, Result<> done) { result = std::move(done); };
    boost::asio::co_spawn(h.io, h.volume->set_epochs(wanted), std::move(ended));
  };
  begin(3, first);
  begin(2, second);
  h.io.restart();
  h.io.run();
  REQUIRE(first);
  REQUIRE(second);
  CHECK(*first);
  CHECK(code_of(*second) == Errc::busy);
  for (int start = 0; start < 2; ++start) {
    CAPTURE(start);
    for (const std::uint64_t epoch : {2, 3}) {
      auto request = h.read_request(h.object("key"));
      request->round.epoch = Epoch{epoch};
      CHECK(bool(h.run(h.volume->read(request, h.later()))) == (epoch == 3));
    }
    h.crash(Keep::none, Keep::none);
    auto opened = h.try_open();
    REQUIRE(opened);
    h.volume = std::move(*opened);
  }
  CHECK(h.run(h.volume->set_epochs({GroupEpoch{kGroup, Epoch{4}, {}}})));
}

TEST_CASE("the map before the last change is known at once, and one adopted twice is no change") {
  VolumeHarness h;
  h.fresh();
  const std::string first = h.volume->get_map();
  AdoptRequest request;
  request.map = std::make_shared<const std::string>("second");
  const auto shared = std::make_shared<const AdoptRequest>(request);
  for (int time = 0; time < 2; ++time) {
    REQUIRE(h.run(h.volume->adopt(shared, h.later())));
    for (int start = 0; start < 2; ++start) {
      CHECK(*h.run(h.volume->read_map(h.later())).value() == "second");
      CHECK(h.volume->get_old_map() == first);
      h.close();
      h.open();
    }
  }
}

TEST_CASE("another map of the epoch that a volume is at is refused, and a newer one is taken") {
  VolumeHarness h;
  h.fresh();
  const auto adopt = [&h](const char* map, std::uint64_t epoch) {
    AdoptRequest request;
    request.map = std::make_shared<const std::string>(map);
    request.epochs = {GroupEpoch{kGroup, Epoch{epoch}, {}}};
    const auto done =
        h.run(h.volume->adopt(std::make_shared<const AdoptRequest>(request), h.later()));
    return done ? std::string("taken") : std::string(to_string(done.error().code));
  };
  const std::string stale(to_string(Errc::stale_epoch));
  CHECK(adopt("one", 4) == "taken");
  for (int start = 0; start < 2; ++start) {
    CAPTURE(start);
    CHECK(adopt("one", 4) == "taken");
    CHECK(adopt("other", 4) == stale);  // with the same lists of its groups
    CHECK(h.volume->get_map() == "one");
    h.close();
    auto opened = h.try_open();
    REQUIRE(opened);
    h.volume = std::move(*opened);
  }
  CHECK(adopt("other", 5) == "taken");
  CHECK(h.volume->get_map() == "other");
}

TEST_CASE("a database under the identity of another volume keeps the volume out") {
  VolumeHarness h;
  REQUIRE(h.format());
  VolumeHarness other;
  LoopWorker worker(other.io);
  auto view = other.disk.share();
  REQUIRE(format_volume(*view, other.clock, other.random, worker, {kCluster, VolumeId{78}}, ""));
  auto from = other.disk.open("volume.json", OpenMode::read).value();
  std::string bytes(static_cast<std::size_t>(from->size().value()), '\0');
  REQUIRE(from->read_at(0, std::as_writable_bytes(std::span(bytes))));
  auto to = h.disk.open("volume.json", OpenMode::write_new).value();
  REQUIRE(to->write_at(0, as_bytes(bytes)));
  CHECK(code_of(h.try_open()) == Errc::corrupt);
}

TEST_CASE("a torn log that could not be mended does not keep the volume out at the next start") {
  using Call = FakeDisk::Call;
  for (const Call call : {Call::create, Call::write, Call::sync, Call::rename}) {
    int starts = 0;
    for (std::uint64_t nth = 1; nth <= 20; ++nth) {
      CAPTURE(static_cast<int>(call));
      CAPTURE(nth);
      VolumeHarness h;
      VolumeOptions options = VolumeHarness::options_in_boot("one boot");
      h.fresh(options);
      h.store(h.object("key"), h.ballot(1), h.value(1));
      h.crash(Keep::all, Keep::all);
      {
        const std::string name = only_log(h);
        auto log = h.disk.open(name, OpenMode::append);
        REQUIRE(log);
        const std::string torn(500, 'j');
        REQUIRE((*log)->write_at(log_pages(h.used_of(name)), as_bytes(torn)));
        REQUIRE((*log)->sync());
      }
      options.boot_id = "the next boot";
      h.disk.fail(call, nth, FakeDisk::Fault::scarce);
      auto opened = h.try_open(options);
      h.disk.heal();
      starts += opened ? 1 : 0;
      if (opened) h.volume = std::move(*opened);
      h.crash(Keep::all, Keep::all);  // the process ends, the machine goes on
      h.open(options);
      CHECK(h.read(h.object("key"))->ballot == h.ballot(1));
    }
    CHECK(starts > 0);
  }
}

}  // namespace penstock
