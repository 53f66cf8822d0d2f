// R13: a volume that waits to be admitted, and what it notes of others.
#include <doctest/doctest.h>

#include "tests/fake/code_of.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

TEST_CASE("a volume that waits for its admission answers notes and its map, nothing else") {
  VolumeHarness h;
  h.fresh();
  h.store(h.object("key"), h.ballot(1), h.value(1));
  h.close();
  VolumeOptions later = h.options();
  later.count_start = CountStart::later;
  auto opened = h.try_open(later);
  REQUIRE(opened);
  h.volume = std::move(*opened);
  CHECK(h.volume->waits_for_admission());
  h.volume->wait_for_admission("waits for two");
  CHECK(h.volume->status().state == VolumeStatus::State::closed);
  CHECK(h.volume->status().reason == "waits for two");
  CHECK(h.volume->is_disk_sound());
  CHECK(code_of(h.prepare(h.object("key"), h.ballot(2))) == Errc::unavailable);
  CHECK(code_of(h.run(h.volume->pin({}, h.later()))) == Errc::unavailable);
  CHECK(code_of(h.run(h.volume->read_join_state(h.later()))) == Errc::unavailable);
  CHECK(h.run(h.volume->put_note(starts_note(VolumeId{8}), "3")));
  const auto note = h.run(h.volume->read_note(starts_note(VolumeId{8}), h.later()));
  REQUIRE(note);
  CHECK(note->bytes == "3");
  CHECK(note->map == h.volume->map_hash());
  CHECK(h.run(h.volume->read_map(h.later())));
  CHECK(h.volume->check_identity());
  REQUIRE(h.volume->count_start());
  h.volume->admit(true);
  CHECK(h.volume->status().state == VolumeStatus::State::open);
  CHECK(h.prepare(h.object("key"), h.ballot(2)));
  h.volume->refuse("it is an old copy");
  CHECK(h.volume->status().reason == "it is an old copy");
  CHECK(h.volume->is_disk_sound());
  CHECK(code_of(h.run(h.volume->read_note(starts_note(VolumeId{8}), h.later()))) ==
        Errc::unavailable);
}

TEST_CASE("one that was admitted without a question waits again when it gets a map") {
  VolumeHarness h;
  h.fresh();
  for (const bool member : {true, false}) {
    h.volume->admit(member);
    AdoptRequest request;
    request.map = std::make_shared<const std::string>(member ? "first" : "second");
    request.epochs = {GroupEpoch{kGroup, Epoch{member ? 2u : 3u}, {}}};
    REQUIRE(h.run(h.volume->adopt(std::make_shared<const AdoptRequest>(request), h.later())));
    CHECK(h.volume->waits_for_admission() == !member);
  }
}

TEST_CASE("a note of starts never goes down; others change as they are told") {
  VolumeHarness h;
  h.fresh();
  for (const char* starts : {"3", "12:a", "12:a"}) {
    CHECK(h.run(h.volume->put_note(starts_note(VolumeId{8}), starts)));
  }
  for (const char* starts : {"4", "12:b", "12", "11:a", "nonsense"}) {
    CAPTURE(starts);
    CHECK(code_of(h.run(h.volume->put_note(starts_note(VolumeId{8}), starts))) == Errc::busy);
  }
  CHECK(h.volume->get_note(starts_note(VolumeId{8})) == "12:a");
  for (const char* boot : {"b", "a"})
    CHECK(h.run(h.volume->put_note(failure_note(VolumeId{8}), boot)));
  CHECK(h.volume->get_note(failure_note(VolumeId{8})) == "a");
}

}  // namespace
}  // namespace penstock
