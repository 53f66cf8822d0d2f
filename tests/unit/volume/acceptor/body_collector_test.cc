// Inline bytes that no row names give their room back, and none that is named is lost by that.
#include "server/volume/acceptor/body_collector.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "penstock/row_key.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

VolumeOptions small_files() {
  VolumeOptions options = VolumeHarness::options();
  options.database.write_buffer_bytes = 64 * limits::kKiB;
  options.database.log_file_bytes_min = 64 * limits::kKiB;
  options.database.log_replay_max = 128 * limits::kKiB;
  return options;
}

// Writes objects, and knows what was acknowledged.
struct Bodies {
  explicit Bodies(std::uint64_t seed = 1) {
    h.random = SeededRandom(seed);
    REQUIRE(h.format());
    h.open(small_files());
  }
  // False: the disk refused it, so nobody knows.
  bool put(std::uint64_t key, std::size_t bytes) {
    ++writes;
    std::string body = bytes == 0 ? "" : std::to_string(writes) + std::string(bytes, 'b');
    const auto kind = bytes == 0 ? ValueKind::tombstone : ValueKind::object;
    const auto request =
        h.accept_request(name(key), {begun + writes, 9, 1}, h.value(writes, kind), body);
    if (!h.accept(request)) {
      unknown[key] = body;
      return false;
    }
    known[key] = body;
    const RowPtr row = make_row(request->ballot, request->round, request->value).value();
    logged[key] = bytes == 0 ? 0 : logged_bytes(register_row_key(name(key)), *row);
    return true;
  }
  static RegisterKey name(std::uint64_t key) {
    return VolumeHarness::object("key" + std::to_string(key));
  }
  void check() {
    for (const auto& [key, body] : known) {
      CAPTURE(key);
      const auto found = h.read(name(key), ReadWant::value_and_inline);
      REQUIRE_MESSAGE(found, (found ? "" : found.error().context));
      const std::string bytes = found->inline_bytes ? *found->inline_bytes : "";
      const bool other = unknown.contains(key) && bytes == unknown.at(key);
      CHECK((bytes == body || other));
    }
  }
  std::uint64_t log_bytes() {
    std::uint64_t bytes = 0;
    for (const std::string& file : h.disk.files()) {
      if (file.ends_with(".log")) bytes += h.disk.file_size(file).value();
    }
    return bytes;
  }
  std::uint64_t known_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [key, with_row] : logged) bytes += with_row;
    return bytes;
  }

  VolumeHarness h;
  const std::uint64_t begun = h.now_us() + 1;
  std::uint64_t writes = 0;
  std::map<std::uint64_t, std::string> known;
  std::map<std::uint64_t, std::string> unknown;
  std::map<std::uint64_t, std::size_t> logged;  // what each takes in the log, with its row
};

}  // namespace

TEST_CASE("the room of deleted bodies is given back, and the others stay what they were") {
  Bodies b;
  for (std::uint64_t key = 0; key < 800; ++key) REQUIRE(b.put(key, 3500));
  const std::uint64_t before = b.log_bytes();
  for (std::uint64_t key = 0; key < 800; ++key) {
    if (key % 4 != 0) REQUIRE(b.put(key, 0));
  }
  for (std::uint64_t n = 0; n < 200; ++n) REQUIRE(b.put(1000 + n % 3, 0));  // batches go on
  b.check();
  CHECK(b.log_bytes() < before / 2);
  b.h.crash(Keep::none, Keep::none);
  b.h.open(small_files());
  b.check();
  b.h.close();
  b.h.with_database([&b](Database& database) {
    const auto usage = database.log().usage();
    CHECK(usage.live_bytes <= b.known_bytes());
    CHECK(usage.live_bytes * 2 > b.known_bytes());  // the newest file is not counted
  });
}

TEST_CASE("a cut at any change while bodies are moved and overwritten loses none") {
  for (std::uint64_t nth = 1; nth < 2200; nth += 13) {
    CAPTURE(nth);
    Bodies b(nth);
    for (std::uint64_t key = 0; key < 60; ++key) REQUIRE(b.put(key, 3500));
    b.h.disk.stop_at_change(nth);
    std::uint64_t draw = nth;
    for (int n = 0; n < 400; ++n) {
      draw = draw * 6364136223846793005u + 1442695040888963407u;
      if (!b.put(draw >> 58, (draw >> 40) % 3 == 0 ? 0 : 1000 + (draw >> 32) % 3000)) break;
    }
    const Keep keep = nth % 3 == 0 ? Keep::none : nth % 3 == 1 ? Keep::some : Keep::all;
    b.h.crash(keep, keep);
    b.h.open(small_files());
    b.check();
  }
}

TEST_CASE("a file with a damaged body stays, and costs nobody else anything") {
  Bodies b;
  for (std::uint64_t key = 0; key < 300; ++key) REQUIRE(b.put(key, 3500));
  b.h.close();
  const auto logs = log_files(b.h.disk);
  REQUIRE(logs.size() > 3);
  b.h.disk.flip_bit(logs[1], 40'000, 2);
  b.h.open(small_files());
  for (std::uint64_t key = 0; key < 300; ++key) {
    if (key % 5 != 0) REQUIRE(b.put(key, 0));
  }
  for (std::uint64_t n = 0; n < 200; ++n) REQUIRE(b.put(1000 + n % 3, 0));
  int damaged = 0;
  for (const auto& [key, body] : b.known) {
    const auto found = b.h.read(Bodies::name(key), ReadWant::value_and_inline);
    damaged += !found && found.error().code == Errc::corrupt;
    if (found) CHECK((found->inline_bytes ? *found->inline_bytes : "") == body);
  }
  CHECK(damaged <= 1);
  CHECK(b.h.volume->status().state == VolumeStatus::State::open);
  const auto left = log_files(b.h.disk);
  CHECK(left.size() < logs.size());
}

TEST_CASE("what a row is counted with is what it takes in the log") {
  VolumeHarness h;
  const std::string key = register_row_key(Bodies::name(7));
  const auto request = h.accept_request(Bodies::name(7), {1, 9, 1}, h.value(1), "twelve bytes");
  const RowPtr made = make_row(request->ballot, request->round, request->value).value();
  const RowPtr row = with_body(*made, BodyPlace{3, 4096, 5});
  std::string put;
  write_logged_put(put, key, encode_row(key, *row));
  CHECK(row->inline_size == 12);
  CHECK(logged_bytes(key, *row) == put.size() + row->inline_size);
}

TEST_CASE("bodies that are smaller than their rows are not moved again and again") {
  Bodies b;
  for (std::uint64_t key = 0; key < 2000; ++key) REQUIRE(b.put(key, 50));
  for (int n = 0; n < 200; ++n) REQUIRE(b.put(5000, 0));  // time to move what there is
  const std::uint64_t before = b.h.disk.calls(FakeDisk::Call::write);
  for (int n = 0; n < 160; ++n) REQUIRE(b.put(5000, 0));
  CHECK(b.h.disk.calls(FakeDisk::Call::write) - before < 400);  // two and a half a batch
  b.check();
}

// What the collector has seen may be old when it is decided: the row of that moment counts.
TEST_CASE("a move of a body that its row names no more changes nothing") {
  VolumeHarness h;
  REQUIRE(h.format());
  const RegisterKey key = h.object("key");
  h.open();
  h.store(key, h.ballot(1), h.value(1), "first");
  h.close();
  h.with_database([&](Database& database) {
    InlineWorker worker;
    VolumeMeta meta;
    RegisterCore core(database, h.clock, 1, meta, limits::kMiB, limits::kMiB, PromiseTable::kSlots);
    RegisterCommit::Hooks hooks;
    hooks.is_full = [] { return false; };
    hooks.on_failure = [](const Error& error) { FAIL(error.context); };
    RegisterCommit commit(core, worker, std::move(hooks));
    const auto move = [&](const BodyPlace& from, const std::string& bytes) {
      std::size_t skipped = 99;
      commit.submit(MoveWork{{{key, from, std::make_shared<const std::string>(bytes)}},
                             [&skipped](Result<std::size_t> done) { skipped = done.value(); }});
      CHECK(skipped == 0);
    };
    const BodyPlace first = core.load(key).value()->body;
    move(first, "first");
    const RowPtr moved = core.load(key).value();
    CHECK(moved->body != first);
    CHECK(*core.load_with_inline(key)->inline_bytes == "first");
    move(first, "stale");
    CHECK(core.load(key).value()->body == moved->body);
    CHECK(*core.load_with_inline(key)->inline_bytes == "first");
    CHECK(core.load(key).value()->ballot == moved->ballot);
  });
}

}  // namespace penstock
