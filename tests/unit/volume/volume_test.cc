#include "server/volume/volume.h"

#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

using Call = FakeDisk::Call;
using Fault = FakeDisk::Fault;

std::vector<std::string> files_with(const FakeDisk& disk, std::string_view end) {
  std::vector<std::string> found;
  for (const std::string& name : disk.files()) {
    if (name.ends_with(end)) found.push_back(name);
  }
  return found;
}

TEST_CASE("only an explicit format makes a volume") {
  VolumeHarness h;
  CHECK(code_of(h.try_open()) == Errc::not_found);
  CHECK(h.disk.files().empty());
  REQUIRE(h.format());
  Volume& volume = h.open();
  CHECK(volume.id() == kVolume);
  CHECK(volume.cluster() == kCluster);
  CHECK(volume.get_map() == R"({"epoch":1})");
  CHECK(volume.status().state == VolumeStatus::State::open);
}

TEST_CASE("a format refuses a volume and a directory that holds something else") {
  VolumeHarness h;
  REQUIRE(h.format());
  CHECK(code_of(h.format()) == Errc::invalid);
  VolumeHarness other;
  REQUIRE(other.disk.open("precious", OpenMode::write_new));
  CHECK(code_of(other.format()) == Errc::invalid);
  CHECK(other.disk.files() == std::vector<std::string>{"precious"});
}

TEST_CASE("a format that was cut off anywhere is a missing volume and can be repeated") {
  std::uint64_t changes = 0;
  {
    VolumeHarness h;
    REQUIRE(h.format());
    changes = h.disk.changes();
  }
  REQUIRE(changes > 20);
  for (std::uint64_t cut = 1; cut <= changes; ++cut) {
    VolumeHarness h;
    h.disk.stop_at_change(cut);
    CHECK_FALSE(h.format());
    h.disk.crash(h.random);
    h.io.restart();
    h.io.run();
    auto opened = h.try_open();
    if (!opened) {
      CHECK(code_of(opened) == Errc::not_found);
      REQUIRE(h.format());
      h.open();
    } else {
      h.volume = std::move(*opened);
      CHECK(h.volume->get_map() == R"({"epoch":1})");
    }
  }
}

TEST_CASE("a volume is opened by one at a time") {
  VolumeHarness h;
  h.fresh();
  CHECK(code_of(h.try_open()) == Errc::busy);
  h.close();
  CHECK(h.try_open());
}

TEST_CASE("another format and a damaged identity are refused with a reason") {
  VolumeHarness h;
  REQUIRE(h.format());
  const auto text = [&](std::string_view from, std::string_view to) {
    auto file = h.disk.open("volume.json", OpenMode::append);
    REQUIRE(file);
    std::string bytes(4096, '\0');
    const auto got = (*file)->read_at(0, std::as_writable_bytes(std::span(bytes)));
    bytes.resize(*got);
    bytes.replace(bytes.find(from), from.size(), to);
    REQUIRE((*file)->write_at(0, as_bytes(bytes)));
  };
  text("\"format\": 2", "\"format\": 3");
  const auto newer = h.try_open();
  CHECK(code_of(newer) == Errc::invalid);
  CHECK(newer.error().context.find("format 3") != std::string::npos);
  text("\"format\": 3", "\"format\": 2");
  text("penstock volume", "penstock folder");
  CHECK(code_of(h.try_open()) == Errc::corrupt);
  text("penstock folder", "penstock volume");
  CHECK(h.try_open());
  text("\"volume\": \"00", "\"volume\": \"01");
  CHECK(code_of(h.try_open()) == Errc::corrupt);
}

TEST_CASE("each start is counted, over kills and power cuts") {
  VolumeHarness h;
  REQUIRE(h.format());
  for (std::uint64_t start = 1; start <= 5; ++start) {
    CHECK(h.open().start_counter() == start);
    if (start % 2 == 0) h.crash(Keep::none, Keep::none);
    h.close();
  }
}

TEST_CASE("a start that is not counted leaves the count as it was, however often") {
  VolumeHarness h;
  h.fresh();
  h.close();
  VolumeOptions later = h.options();
  later.count_start = CountStart::later;
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto opened = h.try_open(later);
    REQUIRE(opened);
    CHECK((*opened)->start_counter() == 2);
  }
  auto opened = h.try_open(later);
  REQUIRE(opened);
  REQUIRE((*opened)->count_start());
  opened->reset();
  CHECK(h.open().start_counter() == 3);
}

TEST_CASE("a database that lost its newest log is not the volume any more") {
  VolumeHarness h;
  h.fresh();
  h.store(h.object("key"), h.ballot(1), h.value(1));
  h.close();
  for (const std::string& log : files_with(h.disk, ".log")) h.disk.lose_file(log);
  CHECK(code_of(h.try_open()) == Errc::corrupt);
}

TEST_CASE("a map comes with its epochs and with what a joining volume takes over, or not at all") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  AdoptRequest request;
  request.map = std::make_shared<const std::string>("joint");
  request.epochs = {GroupEpoch{kGroup, Epoch{2}, {}}};
  request.join.horizon = h.ballot(1'000'000).counter;
  request.join.fences = {{BucketId{9}, BucketNumber{4}}};
  const auto shared = std::make_shared<const AdoptRequest>(request);
  REQUIRE(h.run(h.volume->adopt(shared, h.later())));
  h.crash(Keep::none, Keep::none);
  auto opened = h.try_open();
  REQUIRE(opened);
  h.volume = std::move(*opened);
  CHECK(h.volume->get_map() == "joint");
  CHECK(code_of(h.prepare(key, h.ballot(2))) == Errc::stale_epoch);  // a round of epoch 1
  const auto state = h.run(h.volume->read_join_state(h.later()));
  CHECK(state->horizon == request.join.horizon);
  CHECK(state->fences == request.join.fences);
  auto low = h.prepare_request(key, h.ballot(500'000));
  low->round.epoch = Epoch{2};
  const auto refused = h.prepare(low);
  CHECK(!refused->promised);
  CHECK(refused->horizon == request.join.horizon);
  // An older map does not come back, and changes nothing when it is tried.
  request.map = std::make_shared<const std::string>("steady");
  request.epochs = {GroupEpoch{kGroup, Epoch{1}, {}}};
  const auto older = std::make_shared<const AdoptRequest>(request);
  CHECK(code_of(h.run(h.volume->adopt(older, h.later()))) == Errc::stale_epoch);
  CHECK(h.volume->get_map() == "joint");
}

TEST_CASE("map and notes are durable when they are set") {
  VolumeHarness h;
  h.fresh();
  const auto adopt = [&h](std::string map, AdoptRequest request = {}) {
    request.map = std::make_shared<const std::string>(std::move(map));
    auto shared = std::make_shared<const AdoptRequest>(std::move(request));
    return h.run(h.volume->adopt(std::move(shared), h.later()));
  };
  REQUIRE(adopt("second"));
  REQUIRE(h.run(h.volume->put_note("peer/8", "start 3")));
  REQUIRE(h.run(h.volume->put_note("peer/9", "start 1")));
  REQUIRE(h.run(h.volume->put_note("peer/9", "start 2")));
  CHECK(code_of(h.run(h.volume->put_note("", "x"))) == Errc::invalid);
  CHECK(code_of(h.run(h.volume->put_note("n", std::string(kNoteBytesMax + 1, 'x')))) ==
        Errc::invalid);
  h.crash(Keep::none, Keep::none);
  Volume& volume = h.open();
  CHECK(volume.get_map() == "second");
  CHECK(volume.get_old_map() == R"({"epoch":1})");
  CHECK(volume.get_note("peer/8") == "start 3");
  CHECK(volume.get_note("peer/9") == "start 2");
  CHECK(volume.get_note("peer/7") == std::nullopt);
  CHECK(volume.notes().size() == 2);
}

TEST_CASE("the first failed write or sync closes the volume for ever") {
  for (const Call call : {Call::write, Call::sync}) {
    for (const Fault fault : {Fault::io, Fault::short_write}) {
      if (call == Call::sync && fault == Fault::short_write) continue;
      VolumeHarness h;
      h.fresh();
      const RegisterKey key = h.object("key");
      h.store(key, h.ballot(1), h.value(1));
      const auto known = h.read_request(h.object("known"), ReadWant::ballot);
      h.store(known->key, h.ballot(1), h.value(1));
      CHECK(h.volume->holds_now(*known, h.ballot(1)));
      h.disk.fail(call, 1, fault);  // only once: what follows must not be tried
      CHECK(code_of(h.accept(key, h.ballot(2), h.value(2))) == Errc::io);
      CHECK(h.volume->status().state == VolumeStatus::State::closed);
      CHECK(!h.volume->status().reason.empty());
      CHECK(code_of(h.accept(key, h.ballot(3), h.value(3))) == Errc::unavailable);
      CHECK(code_of(h.prepare(key, h.ballot(3))) == Errc::unavailable);
      CHECK(code_of(h.read(key)) == Errc::unavailable);
      CHECK(code_of(h.scan(h.scan_request())) == Errc::unavailable);
      CHECK(h.volume->read_now(*h.read_request(key))->error().code == Errc::unavailable);
      CHECK_FALSE(h.volume->holds_now(*known, h.ballot(1)));
      CHECK(code_of(h.run(h.volume->put_note("x", "y"))) == Errc::unavailable);
      CHECK(code_of(h.run(h.volume->remove_fragment({}, h.later()))) == Errc::unavailable);
      h.crash(Keep::none, Keep::none);
      h.open();
      CHECK(h.read(key)->ballot == h.ballot(1));
    }
  }
}

TEST_CASE("a failed read does not close the volume") {
  VolumeHarness h;
  h.fresh();
  h.store(h.object("key"), h.ballot(1), h.value(1));
  h.close();
  h.open();
  h.disk.fail(Call::read, 1, Fault::io);
  (void)h.scan(h.scan_request());
  CHECK(h.volume->status().state == VolumeStatus::State::open);
}

TEST_CASE("whatever call a power cut hits, acknowledged accepts are there afterwards") {
  const RegisterKey keys[] = {VolumeHarness::object("a"), VolumeHarness::object("b"),
                              VolumeHarness::object("c")};
  std::uint64_t cut = 0;
  bool finished = false;
  while (!finished) {
    ++cut;
    VolumeHarness h;
    h.fresh();
    h.disk.stop_at_change(cut);
    std::map<std::string, Ballot> acknowledged;
    std::map<std::string, Ballot> tried;
    for (std::uint64_t round = 1; round <= 4; ++round) {
      for (const RegisterKey& key : keys) {
        tried[key.key] = h.ballot(round);
        const auto reply = h.accept(key, h.ballot(round), h.value(round), std::string(round, 'x'));
        if (!reply) break;
        acknowledged[key.key] = h.ballot(round);
      }
    }
    finished = !h.disk.is_stopped();
    h.crash();
    h.open();
    for (const RegisterKey& key : keys) {
      const auto read = h.read(key, ReadWant::value_and_inline);
      REQUIRE(read);
      CHECK(read->ballot >= acknowledged[key.key]);
      CHECK(read->ballot <= tried[key.key]);
      if (read->value) {
        const auto value = decode_value(key, *read->value);
        REQUIRE(value);
        CHECK(read->inline_bytes->size() == value->inline_bytes);
      }
    }
  }
  CHECK(cut > 20);
}

TEST_CASE("power cuts during an open lose nothing either") {
  for (std::uint64_t cut = 1; cut <= 60; ++cut) {
    VolumeHarness h;
    h.fresh();
    h.store(h.object("key"), h.ballot(1), h.value(1));
    h.close();
    h.disk.stop_at_change(cut);
    auto opened = h.try_open();
    if (opened) h.volume = std::move(*opened);
    h.crash();
    h.open();
    CHECK(h.read(h.object("key"))->ballot == h.ballot(1));
  }
}

TEST_CASE("starts that are cut off one after another leave a volume") {
  constexpr std::uint64_t kChanges = 24;
  for (std::uint64_t pair = 0; pair < kChanges * kChanges; ++pair) {
    CAPTURE(pair);
    VolumeHarness h;
    h.fresh();
    h.close();
    for (const std::uint64_t cut : {1 + pair / kChanges, 1 + pair % kChanges}) {
      h.disk.stop_at_change(cut);
      auto opened = h.try_open();
      if (opened) h.volume = std::move(*opened);
      h.crash(Keep::some, Keep::all);
    }
    h.open();
  }
}

TEST_CASE("starts that are cut off while they are counted, one after another, leave a volume") {
  constexpr std::uint64_t kLast = 16;  // of the changes of an open
  std::uint64_t changes = 0;
  {
    VolumeHarness h;
    h.fresh();
    h.close();
    const std::uint64_t before = h.disk.changes();
    const auto opened = h.try_open();
    REQUIRE(opened);
    changes = h.disk.changes() - before;
  }
  REQUIRE(changes > kLast);
  for (std::uint64_t pair = 0; pair < kLast * kLast; ++pair) {
    CAPTURE(pair);
    VolumeHarness h;
    h.fresh();
    h.close();
    for (const std::uint64_t cut : {changes - pair / kLast, changes - pair % kLast}) {
      h.disk.stop_at_change(cut);
      auto opened = h.try_open();
      if (opened) h.volume = std::move(*opened);
      h.crash(Keep::some, Keep::all);
    }
    h.open();
  }
}

TEST_CASE("a torn log tail is dropped, damage before it keeps the volume out") {
  VolumeHarness h;
  h.fresh();
  for (int i = 0; i < 5; ++i) {
    h.store(h.object("key" + std::to_string(i)), h.ballot(1), h.value(1));
  }
  h.close();
  const auto logs = files_with(h.disk, ".log");
  REQUIRE(logs.size() == 1);
  const auto healthy = h.disk.snapshot();
  {
    auto log = h.disk.open(logs[0], OpenMode::append);
    REQUIRE(log);
    const std::uint64_t end = log_pages(h.used_of(logs[0]));
    REQUIRE((*log)->write_at(end, as_bytes(std::string(500, 'j'))));
  }
  h.open();
  CHECK(h.read(h.object("key4"))->ballot == h.ballot(1));
  h.close();
  h.disk.restore(*healthy);
  h.disk.flip_bit(logs[0], 60, 3);
  const auto opened = h.try_open();
  CHECK(code_of(opened) == Errc::corrupt);
}

TEST_CASE("without a power cut a damaged last record keeps the volume out") {
  VolumeHarness h;
  VolumeOptions options = VolumeHarness::options_in_boot("one boot");
  h.fresh(options);
  h.store(h.object("key"), h.ballot(1), h.value(1));
  h.close();
  h.open(options);  // a process that ends leaves nothing torn
  h.store(h.object("last"), h.ballot(20'000'000), h.value(1));
  h.crash(Keep::all, Keep::all);
  const auto logs = files_with(h.disk, ".log");
  REQUIRE(logs.size() == 1);
  h.disk.flip_bit(logs[0], h.used_of(logs[0]) - 1, 3);
  CHECK(code_of(h.try_open(options)) == Errc::corrupt);
  options.boot_id = "the next boot";  // it may have been torn by the power cut between the two
  CHECK(h.try_open(options));
}

TEST_CASE("after an orderly end a damaged last record keeps the volume out, power cut or not") {
  VolumeHarness h;
  h.fresh();
  h.store(h.object("key"), h.ballot(1), h.value(1));
  h.close();
  const auto logs = files_with(h.disk, ".log");
  REQUIRE(logs.size() == 1);
  h.disk.flip_bit(logs[0], h.used_of(logs[0]) - 1, 3);
  CHECK(code_of(h.try_open()) == Errc::corrupt);
}

TEST_CASE("a damaged table is noticed, never taken for an empty one") {
  VolumeHarness h;
  h.fresh();
  h.store(h.object("key"), h.ballot(1), h.value(1));
  h.close();
  h.open();  // moves the log into a table
  h.close();
  const auto tables = files_with(h.disk, ".ldb");
  REQUIRE(!tables.empty());
  int noticed = 0;
  for (const std::string& table : tables) {
    for (std::uint64_t at = 0; at < 40; ++at) h.disk.flip_bit(table, at * 7, 1);
  }
  auto opened = h.try_open();
  if (!opened) {
    CHECK(code_of(opened) == Errc::corrupt);
    ++noticed;
  } else {
    h.volume = std::move(*opened);
    noticed += !h.read(h.object("key"));
  }
  CHECK(noticed == 1);
}

TEST_CASE("a volume whose directory was emptied or replaced closes as missing") {
  for (const bool replaced : {false, true}) {
    VolumeHarness h;
    h.fresh();
    CHECK(h.volume->check_identity());
    h.disk.lose_file("volume.json");
    if (replaced) {
      VolumeHarness other;
      LoopWorker worker(other.io);
      auto view = other.disk.share();
      REQUIRE(format_volume(*view, other.clock, other.random, worker, {kCluster, VolumeId{5}}, ""));
      auto from = other.disk.open("volume.json", OpenMode::read);
      std::string bytes(4096, '\0');
      bytes.resize(*(*from)->read_at(0, std::as_writable_bytes(std::span(bytes))));
      auto to = h.disk.open("volume.json", OpenMode::write_new);
      REQUIRE((*to)->write_at(0, as_bytes(bytes)));
    }
    CHECK(code_of(h.volume->check_identity()) == Errc::not_found);
    CHECK(h.volume->status().state == VolumeStatus::State::missing);
    CHECK(code_of(h.read(h.object("key"))) == Errc::unavailable);
  }
}

TEST_CASE("a full volume takes no bodies but goes on with metadata") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  h.store(key, h.ballot(1), h.value(1), "inline");
  auto used = h.disk.open("filler", OpenMode::write_new);
  REQUIRE(used);
  REQUIRE((*used)->allocate(0, 4 * limits::kGiB - 80 * limits::kMiB));
  h.clock.advance(std::chrono::seconds(1));
  h.store(key, h.ballot(2), h.value(2));  // the commit looks at the disk
  CHECK(h.volume->status().full);
  CHECK(code_of(h.accept(key, h.ballot(3), h.value(3), "inline")) == Errc::full);
  CHECK(!h.run(h.volume->write_fragment({WriteId{1, 1}, 0, Generation{1}}, {100}, h.later())));
  auto identity = h.accept_request(key, h.ballot(4), h.value(4), "inline");
  identity->round.adds_nothing = true;
  CHECK(h.accept(identity)->accepted);
  h.store(key, h.ballot(5), h.value(5, ValueKind::tombstone));
  CHECK(h.drop(key, h.ballot(5)));
  CHECK(h.prepare(key, h.ballot(60'000'000))->promised);
  REQUIRE((*used)->truncate(0));
  h.clock.advance(std::chrono::seconds(1));
  h.store(h.object("other"), h.ballot(60'000'001), h.value(6));
  CHECK_FALSE(h.volume->status().full);
  h.store(key, h.ballot(60'000'001), h.value(7), "inline");
}

TEST_CASE("the ballast lets the last append finish") {
  VolumeHarness h;
  h.fresh();
  h.store(h.object("key"), h.ballot(1), h.value(1));
  h.disk.fail(Call::write, 1, Fault::full);
  h.store(h.object("key"), h.ballot(2), h.value(2));
  CHECK(h.volume->status().state == VolumeStatus::State::open);
  h.disk.fail(Call::write, 1, Fault::full, true);
  CHECK(code_of(h.accept(h.object("key"), h.ballot(3), h.value(3))) == Errc::io);
  CHECK(h.volume->status().state == VolumeStatus::State::closed);
}

TEST_CASE("compaction of many rows keeps every row") {
  VolumeHarness h;
  REQUIRE(h.format());
  auto options = VolumeHarness::options();
  options.database.write_buffer_bytes = 64 * limits::kKiB;
  h.open(options);
  for (int i = 0; i < 3000; ++i) {
    h.store(h.object("key" + std::to_string(i % 500)), h.ballot(static_cast<std::uint64_t>(i) + 1),
            h.value(static_cast<std::uint64_t>(i) + 1), std::string(200, 'x'));
  }
  h.crash(Keep::none, Keep::none);
  h.open(options);
  for (int i = 0; i < 500; ++i) {
    const auto read = h.read(h.object("key" + std::to_string(i)), ReadWant::value_and_inline);
    REQUIRE(read);
    CHECK(read->ballot == h.ballot(static_cast<std::uint64_t>(2500 + i) + 1));
  }
}

}  // namespace
}  // namespace penstock
