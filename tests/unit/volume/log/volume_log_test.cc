#include <algorithm>

#include "server/volume/disk/sealed_row.h"
#include "server/volume/disk/small_file.h"
#include "tests/fake/code_of.h"
#include "tests/unit/volume/log/volume_log_fixture.h"

namespace penstock {
namespace {

std::string key_of(int number) { return "key" + std::to_string(number % 12); }

// Rows over several files: bodies of all lengths, some replaced, some gone; tables that lag.
Result<> fill(LogFixture& f, int count, int from = 0, bool flushes = true) {
  for (int i = from; i < from + count; ++i) {
    const std::size_t bytes = i % 7 == 6 ? 0 : static_cast<std::size_t>(1 + i * 997 % 9000);
    CHECK_OK(f.write(key_of(i), bytes));
    if (flushes && i % 9 == 8) f.flush();
    CHECK_OK(f.upkeep());
  }
  return {};
}

}  // namespace

TEST_CASE("a log gives back its records in order, and the bodies where they were put") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(fill(f, 5, 0, false));
  REQUIRE(f.write({{"one", 1}, {"two", 20'000}, {"three", 4096}}));
  const ModelTables wanted = f.now;
  CHECK(f.verdict(wanted) == "whole");
  for (const bool same_boot : {true, false}) {
    REQUIRE(f.open(same_boot));
    CHECK(f.now.applied == 6);
    CHECK(f.verdict(wanted) == "whole");
  }
  REQUIRE(f.write("four", 10));
  CHECK(f.now.applied == 7);
}

TEST_CASE("only what the tables lack is replayed") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(f.write("a", 100));
  REQUIRE(f.write("b", 100));
  f.flush();
  REQUIRE(f.write("c", 100));
  f.tables.rows.erase("a");  // as if something else had removed it
  REQUIRE(f.open());
  CHECK(!f.now.rows.contains("a"));
  CHECK(f.now.rows.contains("c"));
}

TEST_CASE("a file goes when its records are in tables and no body in it has a name") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(f.write("stays", 5000));
  const std::string first = f.log_files().front();
  for (int i = 0; i < 40; ++i) REQUIRE(f.write("key", 5000));
  REQUIRE(f.log_files().size() > 4);
  REQUIRE(f.log->upkeep());
  CHECK(f.log_files().front() == first);
  CHECK(f.log->take_removed().empty());  // the tables have none of these records
  const std::size_t before = f.log_files().size();
  f.flush();
  REQUIRE(f.log->wants_upkeep());
  REQUIRE(f.log->upkeep());
  CHECK(f.log_files().front() == first);  // it holds a body
  CHECK(f.log_files().size() <= 4);
  CHECK(f.log->take_removed().size() >= before - 4);
  CHECK(f.verdict(f.now) == "whole");
  REQUIRE(f.open());
  CHECK(f.verdict(f.tables) == "whole");
  REQUIRE(f.write("stays", 0));
  f.flush();
  REQUIRE(f.log->upkeep());
  CHECK(f.log_files().front() != first);
  REQUIRE(f.open(false));
  CHECK(f.verdict(f.tables) == "whole");
}

TEST_CASE("the next file is made in advance, and grows with what there is") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(f.write("key", 1000));
  CHECK(f.log_files().size() == 1);
  CHECK(!f.log->wants_upkeep());
  for (int i = 0; i < 3; ++i) REQUIRE(f.write("key" + std::to_string(i), 7000));
  REQUIRE(f.log->wants_upkeep());
  REQUIRE(f.log->upkeep());
  CHECK(f.log_files().size() == 2);
  CHECK(!f.log->wants_upkeep());
  REQUIRE(f.write("large", 200'000));  // the one in advance is too short for it
  CHECK(f.log_files().size() == 2);
  CHECK(f.disk.file_size(f.log_files().back()).value() >= 200'000);
  CHECK(f.verdict(f.now) == "whole");
  REQUIRE(f.open(false));
  CHECK(f.now.rows.contains("large"));
}

TEST_CASE("a count of live bytes that does not add up removes no file") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(f.write({{"stays", 5000}, {"goes", 5000}}));
  const std::string first = f.log_files().front();
  const std::uint64_t file = f.now.rows.at("stays").place.file;
  for (int i = 0; i < 40; ++i) REQUIRE(f.write("key", 5000));
  REQUIRE(f.log->set_live(file, 4000));
  REQUIRE(f.write("goes", 0));
  f.flush();
  REQUIRE(f.upkeep());
  CHECK(f.log_files().front() == first);
  CHECK(f.verdict(f.now) == "whole");
  CHECK(f.log->emptiest(0.8, {}) == file);  // so that it is looked at
}

TEST_CASE("live bytes say which file to empty, and a walk finds its bodies") {
  LogFixture f;
  REQUIRE(f.open());
  for (int i = 0; i < 40; ++i) REQUIRE(f.write("key" + std::to_string(i), 3000));
  CHECK(!f.log->emptiest(1.0, {}));  // nothing is in tables
  for (int i = 0; i < 40; i += 2) REQUIRE(f.write("key" + std::to_string(i), 0));
  f.flush();
  const auto usage = f.log->usage();
  CHECK(usage.files == f.log_files().size());
  CHECK(usage.live_bytes > 0);
  CHECK(usage.live_bytes * 2 < usage.full_bytes);
  CHECK(!f.log->emptiest(0.1, {}));
  const auto file = f.log->emptiest(0.7, {});
  REQUIRE(file);
  const auto other = f.log->emptiest(0.7, {*file});
  CHECK(other != file);
  std::size_t records = 0;
  const auto count = [&](std::uint64_t, std::uint64_t, std::string_view payload) -> Result<> {
    if (records == 2) return fail(Errc::busy, "enough");
    ++records;
    return read_record(payload, [](const LoggedChange&) -> Result<> { return {}; });
  };
  LogPosition at;
  CHECK(code_of(f.log->walk(*file, at, count)) == Errc::busy);
  CHECK(at.record == 2);
  std::uint64_t next = at.record;
  REQUIRE(f.log->walk(*file, at, [&next](std::uint64_t record, std::uint64_t, std::string_view) {
    CHECK(record == next++);
    return Result<>();
  }));
  CHECK(next > 2);
  CHECK(at.record == next);
  f.log->set_empty(*file);
  REQUIRE(f.log->upkeep());
  const auto removed = f.log->take_removed();
  CHECK(std::find(removed.begin(), removed.end(), *file) != removed.end());
  CHECK(code_of(f.log->walk(*file, at, {})) == Errc::not_found);
}

TEST_CASE("a cut or a kill at any change of the disk loses nothing that was acknowledged") {
  for (const Keep keep : {Keep::none, Keep::some, Keep::all}) {
    for (std::uint64_t nth = 1; nth < 420; nth += 1) {
      CAPTURE(static_cast<int>(keep));
      CAPTURE(nth);
      LogFixture f(nth);
      REQUIRE(f.open());
      f.disk.stop_at_change(nth);
      if (fill(f, 45)) break;  // it was never reached
      const ModelTables sure = f.now;
      const ModelTables perhaps = f.asked;
      f.crash(keep);
      const auto opened = f.open(keep == Keep::all);
      REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().context));
      const bool more = f.now.rows != sure.rows;
      CHECK(f.verdict(more ? perhaps : sure) == "whole");
      REQUIRE(fill(f, 6, 100));  // it goes on
      const ModelTables wanted = f.now;
      f.crash(Keep::none);
      REQUIRE(f.open(false));
      CHECK(f.verdict(wanted) == "whole");
    }
  }
}

TEST_CASE("a second cut while the first one is cleared loses nothing") {
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    for (std::uint64_t nth = 1; nth < 12; ++nth) {
      CAPTURE(seed);
      CAPTURE(nth);
      LogFixture f(seed);
      REQUIRE(f.open());
      f.disk.stop_at_change(20 + seed);
      (void)fill(f, 45);
      const ModelTables sure = f.now;
      const ModelTables perhaps = f.asked;
      f.crash(Keep::some);
      f.disk.stop_at_change(nth);
      (void)f.open(false);
      f.crash(Keep::some);
      REQUIRE(f.open(false));
      CHECK(f.verdict(f.now.rows != sure.rows ? perhaps : sure) == "whole");
    }
  }
}

TEST_CASE("a record whose sync failed is durable when the next start has read it") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(f.write("a", 100));
  f.disk.fail(FakeDisk::Call::sync, 1, FakeDisk::Fault::io);
  CHECK(!f.write("b", 100));
  f.crash(Keep::all);
  REQUIRE(f.open(true));
  REQUIRE(f.now.rows.contains("b"));
  const ModelTables read = f.now;
  f.crash(Keep::none);
  REQUIRE(f.open(false));
  CHECK(f.verdict(read) == "whole");
}

TEST_CASE("a disk without room for the smallest file is asked to make some") {
  LogFixture f;
  int asked = 0;
  bool made = true;
  f.make_room = [&] {
    ++asked;
    if (made) f.disk.heal();
  };
  REQUIRE(f.open());
  f.disk.fail(FakeDisk::Call::allocate, 1, FakeDisk::Fault::full, true);
  for (int i = 0; i < 20; ++i) REQUIRE(f.write(key_of(i), 6000));
  CHECK(asked == 1);
  f.disk.fail(FakeDisk::Call::allocate, 1, FakeDisk::Fault::full, true);
  for (int i = 0; i < 20; ++i) REQUIRE(f.write(key_of(i), 6000));
  CHECK(asked > 1);
  made = false;
  f.disk.fail(FakeDisk::Call::allocate, 1, FakeDisk::Fault::full, true);
  int refused = 0;
  for (int i = 0; i < 20; ++i) refused += f.write(key_of(i), 6000) ? 0 : 1;
  CHECK(refused > 0);  // there was no room to be made any more
}

TEST_CASE("what finds no room for its file leaves the rest of the old one to smaller ones") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(f.write("before", 100));
  f.disk.fail(FakeDisk::Call::allocate, 1, FakeDisk::Fault::full, true);
  CHECK(code_of(f.write("large", 200'000)) == Errc::full);
  REQUIRE(f.write("before", 0));
  REQUIRE(f.write("small", 100));
  CHECK(f.log_files().size() == 1);
  const ModelTables wanted = f.now;
  REQUIRE(f.open());
  CHECK(f.verdict(wanted) == "whole");
}

TEST_CASE("no file is made in advance of which the disk has no room for all") {
  LogFixture f;
  REQUIRE(f.open());
  f.disk.set_capacity(40 * limits::kKiB);
  for (int i = 0; i < 3; ++i) REQUIRE(f.write(key_of(i), 6000));
  REQUIRE(f.log->wants_upkeep());
  f.disk.fail(FakeDisk::Call::allocate, 1, FakeDisk::Fault::io);  // of which there is none
  REQUIRE(f.log->upkeep());
  f.disk.heal();
  f.disk.set_capacity(100 * limits::kKiB);
  REQUIRE(f.write(key_of(4), 10));
  REQUIRE(f.log->wants_upkeep());
  REQUIRE(f.log->upkeep());
  CHECK(f.log_files().size() == 2);
}

TEST_CASE("a witness names as many files as a volume of any disk has, and then refuses one more") {
  for (const std::size_t count : {std::size_t{10'000}, kWitnessedMax}) {
    FakeDisk disk;
    SeededRandom random(1);
    std::string payload;
    ByteWriter writer(payload);
    writer.number(std::uint64_t{7});  // marker of the tables
    writer.number(std::uint64_t{1});  // floor
    for (std::uint64_t number = 1; number <= count; ++number) {
      writer.number(static_cast<std::uint8_t>(LogKind::log_file));
      for (const auto field :
           {number, random.next(), std::uint64_t{1}, number, std::uint64_t{4096}})
        writer.number(field);
    }
    REQUIRE(replace_file(disk, kWitnessFile, seal_row(kWitnessFile, payload)));
    LogWitness witness(disk, random);
    REQUIRE(witness.load());
    CHECK(witness.logs().size() == count);
    const auto begun = witness.begin_log_file(count + 1, count + 1, 4096);
    const bool refused = count == kWitnessedMax;
    CHECK(!begun == refused);
    if (refused) CHECK(code_of(begun) == Errc::full);
    REQUIRE(witness.begin_manifest(1));
    LogWitness again(disk, random);
    REQUIRE(again.load());
    CHECK(again.logs().size() == count + (refused ? 1 : 2));
    REQUIRE(again.drop({1, 2}));
    REQUIRE(again.begin_log_file(count + 2, count + 1, 4096));
  }
}

TEST_CASE("want of descriptors or room refuses a record, and the next one is taken") {
  using Call = FakeDisk::Call;
  for (const auto fault : {FakeDisk::Fault::scarce, FakeDisk::Fault::full}) {
    for (const auto call : {Call::create, Call::allocate, Call::rename, Call::sync_directory}) {
      for (std::uint64_t nth = 1; nth < 9; ++nth) {
        const bool room = call == Call::create || call == Call::allocate;
        if (fault == FakeDisk::Fault::full && !room) continue;
        CAPTURE(static_cast<int>(call));
        CAPTURE(nth);
        LogFixture f;
        REQUIRE(f.open());
        f.disk.fail(call, nth, fault);
        int refused = 0;
        for (int i = 0; i < 40; ++i) {
          const std::size_t bytes = refused > 0 && i % 2 == 0 ? 10 : 6000;
          if (f.write(key_of(i), bytes)) continue;
          ++refused;
          REQUIRE(f.write(key_of(i), 10));  // a short one would fit into the old file
        }
        CHECK(refused <= 1);
        const ModelTables wanted = f.now;
        REQUIRE(f.open());
        CHECK(f.verdict(wanted) == "whole");
      }
    }
  }
}

}  // namespace penstock
