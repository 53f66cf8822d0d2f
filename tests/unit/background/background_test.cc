// The loops of the background work: what ends them, and what does not.
#include "server/background/background.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/unit/background/background_world.h"

namespace penstock {

TEST_CASE("what a look at a volume throws ends one pass of the background work, no loop") {
  BackgroundWorld world;
  boost::asio::io_context& io = world.cluster.io;
  FakeVolume& volume = *world.cluster.volumes.front();
  world.cluster.gateway->membership.report_stalled(volume.id());
  BackgroundWork work(world.context);
  int thrown = 0;
  volume.acceptor.before_status = [&thrown] {
    ++thrown;
    throw std::runtime_error("planted");
  };
  work.start(io.get_executor());
  io.restart();
  io.poll();
  CHECK(thrown > 0);
  volume.acceptor.before_status = nullptr;
  work.stop();
  bool ended = false;
  boost::asio::co_spawn(io, work.finish(), [&ended](std::exception_ptr) { ended = true; });
  for (int turn = 0; turn < 1000 && !ended; ++turn) {
    io.restart();
    io.poll();
    world.cluster.clock.advance(std::chrono::milliseconds(100));
  }
  CHECK(ended);
}

}  // namespace penstock
