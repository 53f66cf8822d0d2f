#include "server/node/volume_list.h"

#include <doctest/doctest.h>

#include "tests/fake/code_of.h"
#include "tests/fake/fake_disk.h"
#include "tests/fake/seeded_random.h"

namespace penstock {
namespace {

using Paths = std::vector<std::string>;

TEST_CASE("A list of volumes grows, and names each path once") {
  FakeDisk disk("above");
  CHECK(read_volume_list(disk).value().empty());
  REQUIRE(add_to_volume_list(disk, {"/a", "/b \"c\"\n"}));
  REQUIRE(add_to_volume_list(disk, {"/a"}));
  REQUIRE(add_to_volume_list(disk, {"/d", "/a"}));
  CHECK(read_volume_list(disk).value() == Paths{"/a", "/b \"c\"\n", "/d"});
}

TEST_CASE("A list that is cut off at any change is the old one or the new one") {
  SeededRandom random(3);
  FakeDisk whole("above");
  REQUIRE(add_to_volume_list(whole, {"/a"}));
  const std::uint64_t before = whole.changes();
  REQUIRE(add_to_volume_list(whole, {"/b"}));
  const std::uint64_t changes = whole.changes() - before;
  whole.crash(random);
  CHECK(read_volume_list(whole).value() == Paths{"/a", "/b"});
  REQUIRE(changes > 2);
  for (std::uint64_t cut = 1; cut <= changes; ++cut) {
    CAPTURE(cut);
    FakeDisk disk("above");
    REQUIRE(add_to_volume_list(disk, {"/a"}));
    disk.stop_at_change(cut);
    CHECK_FALSE(add_to_volume_list(disk, {"/b"}));
    disk.crash(random);
    const Paths left = read_volume_list(disk).value();
    CHECK((left == Paths{"/a"} || left == Paths{"/a", "/b"}));
    REQUIRE(add_to_volume_list(disk, {"/b"}));
    CHECK(read_volume_list(disk).value() == Paths{"/a", "/b"});
  }
}

TEST_CASE("What is no list of paths is not taken for an empty one") {
  for (const std::string_view text : {"", "{}", "[1]", "[\"/a\""}) {
    FakeDisk disk("above");
    {
      auto file = disk.open("volumes", OpenMode::write_new).value();
      REQUIRE(file->write_at(0, std::as_bytes(std::span(text))));
    }
    CHECK(code_of(read_volume_list(disk)) == Errc::corrupt);
    CHECK(code_of(add_to_volume_list(disk, {"/b"})) == Errc::corrupt);
  }
}

}  // namespace
}  // namespace penstock
