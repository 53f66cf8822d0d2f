// What damage of a log's files does: the log refuses to open, or nothing of it is lost in silence.
#include <algorithm>
#include <functional>

#include "tests/fake/code_of.h"
#include "tests/unit/volume/log/volume_log_fixture.h"

namespace penstock {
namespace {

void fill(LogFixture& f, int count, char letter = 'b') {
  for (int i = 0; i < count; ++i) {
    const auto bytes = static_cast<std::size_t>(1 + i * 997 % 9000);
    REQUIRE(f.write("key" + std::to_string(i % 12), bytes, letter));
    if (i == count / 2) f.flush();
    REQUIRE(f.upkeep());
  }
}

// Refused as damaged, or all that was written.
bool is_good(LogFixture& f, bool same_boot, const ModelTables& wanted, std::string& found) {
  const auto opened = f.open(same_boot);
  found = opened ? f.verdict(wanted) : "refused: " + opened.error().context;
  return found == "whole" || (!opened && opened.error().code == Errc::corrupt);
}

using Change = std::function<void(LogFixture& f, const std::string& name, std::string bytes)>;

std::vector<std::pair<std::string, Change>> changes(LogFixture& other, LogFixture& older) {
  std::vector<std::pair<std::string, Change>> all{
      {"lost",
       [](LogFixture& f, const std::string& name, const std::string&) { f.disk.lose_file(name); }}};
  for (auto* source : {&other, &older}) {
    const std::string what = source == &other ? "another volume's" : "an older copy";
    all.emplace_back(what, [source](LogFixture& f, const std::string& name, const std::string&) {
      const auto names = source->disk.files();
      if (std::find(names.begin(), names.end(), name) == names.end()) return;
      f.write_file(name, source->read_file(name));
    });
  }
  for (std::size_t tenth = 0; tenth < 10; ++tenth) {
    all.emplace_back("cut to " + std::to_string(tenth) + "/10",
                     [tenth](LogFixture& f, const std::string& name, const std::string& bytes) {
                       f.write_file(name, bytes.substr(0, bytes.size() * tenth / 10));
                     });
  }
  for (std::size_t step = 0; step < 200; ++step) {
    all.emplace_back("flipped at " + std::to_string(step) + "/200",
                     [step](LogFixture& f, const std::string& name, const std::string& bytes) {
                       const std::size_t at = bytes.size() * step / 200 + step % 29;
                       if (at < bytes.size()) f.disk.flip_bit(name, at, step % 8);
                     });
  }
  return all;
}

}  // namespace

TEST_CASE("no damage of a file loses a record or a body in silence") {
  LogFixture other(2);
  REQUIRE(other.open());
  fill(other, 40, 'o');
  LogFixture f;
  REQUIRE(f.open());
  fill(f, 25);
  LogFixture older(3);
  older.disk.restore(*f.disk.snapshot());
  fill(f, 25);
  REQUIRE(f.witness->seal());  // an orderly end: it counts all records
  const ModelTables wanted = f.now;
  const auto before = f.disk.snapshot();
  int refused = 0;
  const auto names = f.disk.files();
  for (const std::string& name : names) {
    f.disk.restore(*before);
    const std::string bytes = f.read_file(name);
    for (const auto& [how, change] : changes(other, older)) {
      for (const bool same_boot : {true, false}) {
        f.disk.restore(*before);
        change(f, name, bytes);
        std::string found;
        CHECK_MESSAGE(is_good(f, same_boot, wanted, found), name, " ", how, ": ", found);
        refused += found != "whole";
      }
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("in its boot a damaged last record keeps the log closed; after a cut it may be torn") {
  for (const std::size_t bytes : {10u, 20'000u}) {
    LogFixture f;
    REQUIRE(f.open());
    REQUIRE(f.write("first", 100));
    const ModelTables before_last = f.now;
    REQUIRE(f.write("last", bytes));
    const ModelTables wanted = f.now;
    const auto before = f.disk.snapshot();
    const std::string name = f.log_files().back();
    const std::size_t begin = 4096;
    for (std::size_t at = begin; at < begin + 24 + bytes; at += 1 + bytes / 50) {
      CAPTURE(at);
      f.disk.restore(*before);
      f.disk.flip_bit(name, at, 2);
      CHECK(code_of(f.open(true)) == Errc::corrupt);
      f.disk.restore(*before);
      f.disk.flip_bit(name, at, 2);
      REQUIRE(f.open(false));
      CHECK(f.verdict(before_last) == "whole");
      REQUIRE(f.write("last", 300));  // its number is used again; nothing of the old one is left
      const ModelTables again = f.now;
      REQUIRE(f.open(true));
      CHECK(f.verdict(again) == "whole");
    }
    f.disk.restore(*before);
    f.disk.flip_bit(name, 5, 2);  // the record before it
    CHECK(code_of(f.open(false)) == Errc::corrupt);
    f.disk.restore(*before);
    REQUIRE(f.open(true));
    CHECK(f.verdict(wanted) == "whole");
  }
}

TEST_CASE("a user's bytes never pass for records") {
  LogFixture f;
  REQUIRE(f.open());
  for (int i = 0; i < 3; ++i) REQUIRE(f.write("key" + std::to_string(i), 3000));
  // What this very file holds, records and marker, and then a write of it that is torn.
  const std::string name = f.log_files().back();
  const std::string held = f.read_file(name).substr(0, 12'288);
  const ModelTables wanted = f.now;
  for (std::size_t page = 1; page <= 3; ++page) {
    auto record = f.log->begin(held.size() + 4096);
    REQUIRE(record);
    const std::string shifted = std::string(4096 - 28, 'u') + held;  // at page borders
    record->add_body(OpId{1, 1}, shifted);
    const std::string whole_before = f.read_file(name);
    REQUIRE(f.log->append(std::move(*record), "", true));
    std::string torn = f.read_file(name);
    const std::size_t keep = 12'288 + page * 4096;  // its first pages reached the disk
    torn.replace(keep, torn.size() - keep, whole_before, keep, std::string::npos);
    const auto intact = f.disk.snapshot();
    f.write_file(name, torn);
    REQUIRE(f.open(false));
    CHECK(f.now.applied == 3);
    CHECK(f.verdict(wanted) == "whole");
    f.disk.restore(*intact);
    f.write_file(name, whole_before);
    REQUIRE(f.open(false));
  }
}

TEST_CASE("tables and log that do not fit together are refused") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(f.write("a", 10));
  const ModelTables early = f.now;
  for (int i = 0; i < 30; ++i) REQUIRE(f.write("key", 5000));
  f.flush();
  const ModelTables late = f.tables;
  REQUIRE(f.log->upkeep());
  REQUIRE(!f.log->take_removed().empty());
  f.tables = early;  // an old manifest: it asks for records of files that are gone
  CHECK(code_of(f.open()) == Errc::corrupt);
  f.tables = late;
  f.tables.applied += 1;  // a record that the log has lost
  CHECK(code_of(f.open()) == Errc::corrupt);
  f.tables = late;
  REQUIRE(f.open());
  CHECK(f.verdict(late) == "whole");
}

TEST_CASE("a witness of before keeps the log closed when a file was begun or removed since") {
  LogFixture f;
  REQUIRE(f.open());
  REQUIRE(f.write("a", 10));
  const std::string old = f.read_file(kWitnessFile);
  for (int i = 0; i < 8; ++i) REQUIRE(f.write("key", 5000));
  REQUIRE(f.log_files().size() > 1);
  f.write_file(kWitnessFile, old);
  CHECK(code_of(f.open(false)) == Errc::corrupt);
}

TEST_CASE("a record that makes no sense is refused, whatever its bytes are") {
  std::string payload(4, '\0');
  write_logged_put(payload, "key", "value");
  write_logged_removal(payload, "other");
  int changes_seen = 0;
  const auto count = [&](const LoggedChange& change) -> Result<> {
    ++changes_seen;
    CHECK(change.removes == (change.key == "other"));
    return {};
  };
  REQUIRE(read_record(payload, count));
  CHECK(changes_seen == 2);
  for (std::size_t bytes = 0; bytes < payload.size(); ++bytes) {
    if (bytes == 4 || bytes == 4 + 1 + 4 + 3 + 4 + 5) continue;  // between two changes
    CHECK(code_of(read_record(payload.substr(0, bytes), count)) == Errc::corrupt);
  }
  payload[4] = 9;
  CHECK(code_of(read_record(payload, count)) == Errc::corrupt);
  payload[0] = 127;  // bodies that are longer than the record
  CHECK(code_of(read_record(payload, count)) == Errc::corrupt);
}

}  // namespace penstock
