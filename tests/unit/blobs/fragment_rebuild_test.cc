#include "tests/unit/blobs/blob_world.h"

namespace penstock {
namespace {

struct RebuildFixture {
  static BlobWorldShape seven() {
    BlobWorldShape shape;
    shape.volumes = 7;
    return shape;
  }
  BlobWorld world{seven()};
  const std::string body = BlobWorld::body(700'000);
  BlobRef blob = world.put(body).value();
  // The one volume that has no fragment of the blob.
  FakeHolder& apart = *world.volumes[apart_index()];

  std::size_t apart_index() const {
    for (std::size_t i = 0;; ++i) {
      if (world.volumes[i]->fragment_count() == 0) return i;
    }
  }
  Result<Location> rebuild(std::uint32_t slot) {
    return run_task(world.io, world.clock,
                    world.blobs->make_again(world.owner, blob, slot, world.deadline()));
  }
};

}  // namespace

TEST_CASE("a fragment is rebuilt from itself or from the others, under a generation of its own") {
  for (const bool lost : {false, true}) {
    for (const std::uint32_t slot : {0u, 3u, 5u}) {
      CAPTURE(lost);
      CAPTURE(slot);
      RebuildFixture f;
      if (lost) f.world.slot(f.blob, slot).lose_all();
      const auto first = f.rebuild(slot);
      const auto second = f.rebuild(slot);
      REQUIRE(first.has_value());
      REQUIRE(second.has_value());
      CHECK(first->volume == f.apart.id());
      CHECK(first->generation != f.blob.locations[slot].generation);
      CHECK(first->generation != second->generation);
      BlobRef moved = f.blob;
      moved.locations[slot] = *second;
      CHECK(f.apart.holds(moved.fragment(slot)));
      for (std::uint32_t other = 0, gone = 0; other < 6 && gone < 2; ++other) {
        if (other == slot) continue;
        f.world.slot(moved, other).lose_all();  // so that the new one is read
        ++gone;
      }
      CHECK(f.world.get(moved).value() == f.body);
    }
  }
}

TEST_CASE("what was lost is asked for once, then computed") {
  RebuildFixture f;
  f.world.slot(f.blob, 0).lose_all();
  FakeHolder& lost = f.world.slot(f.blob, 0);
  lost.counters.reads = 0;
  REQUIRE(f.rebuild(0).has_value());
  CHECK(lost.counters.reads <= 1);
}

TEST_CASE("a target that does not take the fragment is suspected the second time") {
  RebuildFixture f;
  f.apart.faults.fail_open = true;
  f.apart.faults.open_error = Errc::overloaded;
  for (int i = 0; i < 3; ++i) CHECK(f.rebuild(0).error().code == Errc::overloaded);
  f.apart.faults.open_error = Errc::io;
  CHECK(f.rebuild(0).error().code == Errc::io);
  CHECK_FALSE(f.world.membership->suspect(f.apart.id()));
  f.world.membership->report_answer(f.apart.id(), std::nullopt);  // its registers are well
  CHECK(f.rebuild(0).error().code == Errc::io);
  CHECK(f.world.membership->suspect(f.apart.id()));
}

TEST_CASE("a target that fails behind the open is suspected, too") {
  for (const bool in_commit : {false, true}) {
    CAPTURE(in_commit);
    RebuildFixture f;
    for (int i = 0; i < 2; ++i) {
      CHECK_FALSE(f.world.membership->suspect(f.apart.id()));
      f.apart.faults.fail_commit = in_commit;
      f.apart.faults.fail_append = in_commit ? 0 : 1;
      CHECK(f.rebuild(0).error().code == Errc::io);
      f.world.membership->report_answer(f.apart.id(), std::nullopt);  // its registers are well
    }
    CHECK(f.world.membership->suspect(f.apart.id()));
  }
}

TEST_CASE("a target that has committed a fragment is not suspected any more") {
  RebuildFixture f;
  f.world.membership->report_fragment(f.apart.id(), false);
  REQUIRE(f.rebuild(0).has_value());
  f.world.membership->report_fragment(f.apart.id(), false);  // no second failure in a row
  CHECK_FALSE(f.world.membership->suspect(f.apart.id()));
}

}  // namespace penstock
