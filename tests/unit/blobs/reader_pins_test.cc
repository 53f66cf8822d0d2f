#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/unit/blobs/blob_world.h"

namespace penstock {

TEST_CASE("each holder of a blob that is being read is asked once to keep all its fragments") {
  BlobWorld world;
  std::vector<BlobRef> blobs;
  for (int n = 0; n < 2; ++n) blobs.push_back(world.put(BlobWorld::body(300'000)).value());
  std::vector<BlobRef> asked = blobs;
  asked[0].locations[1] = Location{};                              // its volume had failed
  asked[1].locations[2] = Location{VolumeId{999}, Generation{1}};  // has left the cluster
  boost::asio::co_spawn(world.io, world.blobs->pin_for_reader(asked, world.deadline()),
                        boost::asio::detached);
  run_all(world.io, world.clock);
  for (std::size_t n = 0; n < asked.size(); ++n) {
    for (std::uint32_t slot = 0; slot < asked[n].locations.size(); ++slot) {
      CAPTURE(n);
      CAPTURE(slot);
      const bool kept = world.slot(blobs[n], slot).being_read.contains(blobs[n].fragment(slot));
      CHECK(kept == (asked[n].locations[slot] == blobs[n].locations[slot]));
    }
  }
  for (const auto& volume : world.volumes) CHECK(volume->counters.reader_pins <= 1);
}

}  // namespace penstock
