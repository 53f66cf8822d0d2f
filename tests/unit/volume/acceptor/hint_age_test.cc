// How old a hint is: its volume tells, by its own clock.
#include "penstock/row_key.h"
#include "penstock/text_codec.h"
#include "server/volume/acceptor/register_row.h"
#include "server/volume/disk/sealed_row.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {

TEST_CASE("a hint's age is of its volume's own clock, and after a restart from its start") {
  VolumeHarness h;
  h.fresh();
  auto request = h.accept_request(h.object("key"), h.ballot(1), h.value(1));
  const WallTime yesterday = h.clock.wall() - std::chrono::hours(24);
  request->hints.push_back(Hint{WriteId{4, 5}, yesterday, "where", ""});
  REQUIRE(h.accept(request)->accepted);
  HintListRequest list;
  list.due_until = h.clock.wall();
  const auto age = [&] { return h.run(h.volume->list_hints(list, h.later()))->hints.at(0).age; };
  const Duration first = age();
  CHECK(first < std::chrono::seconds(1));
  h.clock.advance(std::chrono::minutes(10));
  h.clock.set_wall(h.clock.wall() + std::chrono::hours(10));
  CHECK(age() - first == std::chrono::minutes(10));
  h.close();
  h.open();
  CHECK(age() < std::chrono::seconds(1));
  h.clock.advance(std::chrono::minutes(2));
  CHECK(age() >= std::chrono::minutes(2));
}

TEST_CASE("the stamp of a hint's row is frozen, and rows of before it are read") {
  VolumeHarness h;
  const auto request = h.accept_request(h.object("key"), h.ballot(1), h.value(1));
  const HintName name{WallTime(Duration(77)), WriteId{1, 2}};
  const Hint hint{name.write_id, name.due, "where", "up"};
  const std::string key = hint_row_key({name.due, name.write_id, kEverySlot});
  const std::string row = encode_hint(key, *request, hint, CommitStamp{0x0102, 0x0304});
  CHECK(hex_encode(row.substr(row.size() - 16)) == "02010000000000000403000000000000");
  h.clock.advance(std::chrono::hours(1));
  const VolumeStart start(h.clock, 0x0102);
  h.clock.advance(std::chrono::minutes(5));
  const auto since = h.clock.boot().time_since_epoch() - Duration(0x0304);
  CHECK(decode_hint(name, key, row, start)->age == since);
  const std::string payload(unseal_row(key, row).value());
  const std::string before = seal_row(key, payload.substr(0, payload.size() - 16));
  const auto old = decode_hint(name, key, before, start);
  REQUIRE(old);
  CHECK(old->locations == "where");
  CHECK(old->age == std::chrono::minutes(5));
  CHECK_FALSE(decode_hint(name, key, seal_row(key, payload.substr(0, payload.size() - 8)), start));
}

}  // namespace penstock
