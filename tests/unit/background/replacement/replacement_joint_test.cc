// What a replacement does about a new volume that is away while the map changes.
#include "tests/unit/background/replacement/replacement_world.h"

namespace penstock {

TEST_CASE("the old list holds until the new volume is there, or was away for too long") {
  for (const bool comes_back : {true, false}) {
    CAPTURE(comes_back);
    ReplacementWorld world;
    fill(world);
    FakeVolume& joining = world.volume(kNew);
    joining.acceptor.state = VolumeStatus::State::closed;
    REQUIRE(world.begin(first_volume()));
    const BootTime begun = world.cluster.clock.boot();
    const auto after = [&](Duration time) {
      run_until(world.cluster.io, world.cluster.clock,
                [&] { return world.cluster.clock.boot() >= begun + time; });
    };
    const Duration patience = ReplacementOptions().join_patience;
    after(patience - std::chrono::seconds(10));
    CHECK(world.is_joint());
    CHECK(world.replacement().status().trouble == "the new volume is away");
    if (comes_back) {
      joining.acceptor.state = VolumeStatus::State::open;
      REQUIRE(world.run_until_replaced());
      CHECK(joining.acceptor.rows.size() > 0);
    } else {
      after(patience + std::chrono::seconds(30));
      CHECK_FALSE(world.is_joint());
    }
    world.check_all();
  }
}

}  // namespace penstock
