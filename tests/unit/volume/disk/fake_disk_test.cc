#include "tests/fake/fake_disk.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

class TestRandom final : public Random {
 public:
  explicit TestRandom(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> bytes) override {
    for (std::byte& b : bytes) b = static_cast<std::byte>(engine_());
  }

 private:
  std::mt19937_64 engine_;
};

std::string contents(Disk& disk, const std::string& name) {
  auto file = disk.open(name, OpenMode::read);
  if (!file) return "(" + std::string(to_string(file.error().code)) + ")";
  std::string bytes(static_cast<std::size_t>((*file)->size().value()), '\0');
  const auto got = (*file)->read_at(0, std::as_writable_bytes(std::span(bytes)));
  return got ? bytes.substr(0, *got) : "(" + std::string(to_string(got.error().code)) + ")";
}

std::unique_ptr<File> must_open(Disk& disk, const std::string& name, OpenMode mode) {
  auto file = disk.open(name, mode);
  REQUIRE(file);
  return std::move(*file);
}

// A file whose bytes and name are durable.
void put_durably(Disk& disk, const std::string& name, std::string_view bytes) {
  auto file = must_open(disk, name, OpenMode::write_new);
  REQUIRE(file->write_at(0, as_bytes(bytes)));
  REQUIRE(file->sync());
  const auto slash = name.rfind('/');
  REQUIRE(disk.sync_directory(slash == std::string::npos ? "" : name.substr(0, slash)));
}

}  // namespace

TEST_CASE("what was written is read back, past pages and holes") {
  FakeDisk disk;
  auto file = must_open(disk, "f", OpenMode::write_new);
  const std::string text(10'000, 'a');
  CHECK(file->write_at(5000, as_bytes(text)));
  CHECK(file->write_at(4094, as_bytes("zzzz")));
  const std::string all = contents(disk, "f");
  CHECK(all.size() == 15'000);
  CHECK(all.substr(0, 4094) == std::string(4094, '\0'));
  CHECK(all.substr(4094, 6) == std::string("zzzz\0\0", 6));
  CHECK(all.substr(5000) == text);
  CHECK(file->truncate(4095));
  CHECK(file->truncate(5000));
  CHECK(contents(disk, "f") == std::string(4094, '\0') + "z" + std::string(905, '\0'));
}

TEST_CASE("a crash that keeps nothing forgets unsynced bytes and names, and nothing else") {
  TestRandom random(1);
  FakeDisk disk;
  put_durably(disk, "old", "synced");
  auto old = must_open(disk, "old", OpenMode::append);
  CHECK(old->write_at(3, as_bytes("XXXXXXX")));
  auto fresh = must_open(disk, "fresh", OpenMode::write_new);
  CHECK(fresh->write_at(0, as_bytes("data without a name")));
  CHECK(fresh->sync());
  disk.crash(random, Keep::none, Keep::none);
  CHECK(contents(disk, "old") == "synced");
  CHECK_FALSE(disk.exists("fresh"));
  CHECK(code_of(old->write_at(0, as_bytes("late"))) == Errc::io);
}

TEST_CASE("a synced directory keeps its names, another one does not") {
  TestRandom random(1);
  FakeDisk disk;
  CHECK(disk.make_directory("a"));
  CHECK(disk.sync_directory(""));
  put_durably(disk, "a/tmp", "one");
  CHECK(disk.rename("a/tmp", "a/final"));
  SUBCASE("renamed, not synced") {
    disk.crash(random, Keep::none, Keep::none);
    CHECK(disk.files() == std::vector<std::string>{"a/tmp"});
  }
  SUBCASE("renamed and synced") {
    CHECK(disk.sync_directory("a"));
    disk.crash(random, Keep::none, Keep::none);
    CHECK(disk.files() == std::vector<std::string>{"a/final"});
    CHECK(contents(disk, "a/final") == "one");
  }
  SUBCASE("another directory synced") {
    CHECK(disk.sync_directory(""));
    disk.crash(random, Keep::none, Keep::none);
    CHECK(disk.files() == std::vector<std::string>{"a/tmp"});
  }
  SUBCASE("a file in a directory whose name is lost is lost") {
    CHECK(disk.make_directory("b"));
    put_durably(disk, "b/x", "y");
    disk.crash(random, Keep::none, Keep::none);
    CHECK_FALSE(disk.exists("b"));
    CHECK_FALSE(disk.exists("b/x"));
  }
}

TEST_CASE(
    "over many seeds a crash shows every outcome, torn at sectors, and never bytes nobody wrote") {
  std::set<std::string> outcomes;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    TestRandom random(seed);
    FakeDisk disk;
    put_durably(disk, "f", std::string(1024, 'a'));
    auto file = must_open(disk, "f", OpenMode::append);
    CHECK(file->write_at(0, as_bytes(std::string(1024, 'b'))));
    CHECK(file->write_at(256, as_bytes(std::string(1024, 'c'))));
    disk.crash(random, Keep::some, Keep::some);
    const std::string after = contents(disk, "f");
    for (std::size_t at = 0; at < after.size(); ++at) {
      const std::string may_be = at < 256 ? "ab" : at < 1024 ? "abc" : std::string("c\0", 2);
      REQUIRE(may_be.find(after[at]) != std::string::npos);
    }
    // A sector has one version: what the second write left, it left on top of the first.
    if (after[300] == 'c') REQUIRE(after[10] == 'b');
    outcomes.insert(after);
  }
  CHECK(outcomes.contains(std::string(1024, 'a')));
  CHECK(outcomes.contains(std::string(512, 'a') + std::string(512, 'b')));
  CHECK(outcomes.contains(std::string(256, 'b') + std::string(1024, 'c')));
  CHECK(outcomes.size() > 6);
}

TEST_CASE("the same seed leaves the same disk") {
  const auto run = [](std::uint64_t seed) {
    TestRandom random(seed);
    FakeDisk disk;
    for (int i = 0; i < 20; ++i) {
      auto file = must_open(disk, "f" + std::to_string(i), OpenMode::write_new);
      CHECK(file->write_at(0, as_bytes(std::string(3000, static_cast<char>('a' + i)))));
    }
    disk.crash(random, Keep::some, Keep::some);
    std::string all;
    for (const auto& name : disk.files()) all += name + "=" + contents(disk, name) + ";";
    return all;
  };
  CHECK(run(7) == run(7));
  CHECK(run(7) != run(8));
}

TEST_CASE("the chosen call fails, and only it, unless the fault lasts") {
  FakeDisk disk;
  auto file = must_open(disk, "f", OpenMode::write_new);
  disk.fail(FakeDisk::Call::write, 2, FakeDisk::Fault::full);
  CHECK(file->write_at(0, as_bytes("1")));
  CHECK(code_of(file->write_at(0, as_bytes("2"))) == Errc::full);
  CHECK(file->write_at(0, as_bytes("3")));
  CHECK(contents(disk, "f") == "3");
  disk.fail(FakeDisk::Call::write, 1, FakeDisk::Fault::short_write);
  CHECK(code_of(file->write_at(0, as_bytes("abcd"))) == Errc::io);
  CHECK(contents(disk, "f") == "ab");
  disk.fail(FakeDisk::Call::sync, 1, FakeDisk::Fault::io, true);
  CHECK_FALSE(file->sync());
  CHECK_FALSE(file->sync());
  disk.heal();
  CHECK(file->sync());
  disk.fail_all();
  CHECK(contents(disk, "f") == "(io)");
}

TEST_CASE("from the chosen change on nothing succeeds until the crash") {
  TestRandom random(3);
  FakeDisk disk;
  put_durably(disk, "f", "before");
  auto file = must_open(disk, "f", OpenMode::append);
  disk.stop_at_change(2);
  CHECK(file->write_at(0, as_bytes("AFTER!")));
  CHECK_FALSE(file->sync());
  CHECK(disk.is_stopped());
  CHECK_FALSE(file->sync());
  CHECK_FALSE(disk.rename("f", "g"));
  disk.crash(random, Keep::none, Keep::none);
  CHECK_FALSE(disk.is_stopped());
  CHECK(contents(disk, "f") == "before");
}

TEST_CASE("a flipped bit stays flipped after a crash") {
  TestRandom random(3);
  FakeDisk disk;
  put_durably(disk, "f", "aaaa");
  auto file = must_open(disk, "f", OpenMode::append);
  CHECK(file->write_at(0, as_bytes("b")));
  disk.flip_bit("f", 2, 1);
  CHECK(contents(disk, "f") == "baca");
  disk.crash(random, Keep::none, Keep::none);
  CHECK(contents(disk, "f") == "aaca");
}

TEST_CASE("an old copy comes back as it was") {
  FakeDisk disk;
  CHECK(disk.make_directory("d"));
  put_durably(disk, "d/f", "old");
  const auto old = disk.snapshot();
  put_durably(disk, "d/f", "newer");
  put_durably(disk, "g", "g");
  disk.restore(*old);
  CHECK(disk.files() == std::vector<std::string>{"d/f"});
  CHECK(contents(disk, "d/f") == "old");
  disk.wipe();
  CHECK(disk.files().empty());
  CHECK_FALSE(disk.exists("d"));
}

TEST_CASE("a full disk takes no more, and space comes back with removal") {
  FakeDisk disk;
  disk.set_capacity(8192);
  auto file = must_open(disk, "f", OpenMode::write_new);
  CHECK(file->write_at(0, as_bytes(std::string(8192, 'x'))));
  auto more = must_open(disk, "g", OpenMode::write_new);
  CHECK(code_of(more->write_at(0, as_bytes("y"))) == Errc::full);
  CHECK(file->write_at(100, as_bytes("y")));
  CHECK(disk.space()->free_bytes == 0);
  CHECK(disk.remove("f"));
  CHECK(more->write_at(0, as_bytes("y")));
  CHECK(disk.space()->free_bytes == 4096);
}

TEST_CASE("a lock is exclusive until it is dropped or the power is cut") {
  TestRandom random(3);
  FakeDisk disk;
  auto held = disk.lock("LOCK");
  CHECK(held);
  CHECK(code_of(disk.lock("LOCK")) == Errc::busy);
  disk.crash(random);
  auto again = disk.lock("LOCK");
  CHECK(again);
  held = fail(Errc::aborted, "dropped");  // the lock of the dead process frees nothing
  CHECK(code_of(disk.lock("LOCK")) == Errc::busy);
  again = fail(Errc::aborted, "dropped");
  CHECK(disk.lock("LOCK"));
}

TEST_CASE("a cold disk answers nothing at once") {
  FakeDisk disk;
  put_durably(disk, "f", "abc");
  auto file = must_open(disk, "f", OpenMode::read);
  std::array<std::byte, 3> bytes{};
  CHECK(file->read_now(0, bytes));
  disk.set_cold(true);
  CHECK_FALSE(file->read_now(0, bytes));
  CHECK(file->read_at(0, bytes));
}

}  // namespace penstock
