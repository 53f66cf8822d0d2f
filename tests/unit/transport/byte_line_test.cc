#include "server/transport/byte_line.h"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <vector>

#include "tests/fake/fake_clock.h"

namespace penstock {
namespace {

struct Line {
  // Takes `bytes` for `volume`, and keeps them in `held[name]`.
  void take(int name, std::uint64_t volume, std::size_t bytes, Duration patience) {
    boost::asio::co_spawn(io, run(*this, name, VolumeId{volume}, bytes, patience),
                          boost::asio::detached);
    settle();
  }
  static Awaitable<void> run(Line& self, int name, VolumeId volume, std::size_t bytes,
                             Duration patience) {
    auto held = co_await self.line->take(volume, bytes, self.clock, self.clock.boot() + patience);
    if (!held) {
      self.failed.push_back(name);
      co_return;
    }
    self.served.push_back(name);
    self.held[name] = std::move(*held);
  }
  void settle() {
    io.restart();
    io.poll();
  }
  void release(int name) {
    held[name].reset();
    settle();
  }

  boost::asio::io_context io;
  FakeClock clock;
  std::shared_ptr<ByteLine> line = std::make_shared<ByteLine>(ByteLine::Bounds{100, 40});
  std::map<int, ByteLine::Held> held;
  std::vector<int> served;
  std::vector<int> failed;
};

constexpr Duration kLong = std::chrono::seconds(60);

TEST_CASE("a volume has its part, and its calls beyond that wait in order") {
  Line line;
  line.take(1, 1, 30, kLong);
  line.take(2, 1, 20, kLong);
  line.take(3, 1, 5, kLong);  // would find room, and comes behind
  line.take(4, 2, 30, kLong);
  CHECK(line.served == std::vector{1, 4});
  line.release(1);
  CHECK(line.served == std::vector{1, 4, 2, 3});
  CHECK(line.line->held_bytes() == 55);
}

TEST_CASE("who waits for all of the room is not passed by who needs less") {
  Line line;
  for (int volume = 1; volume <= 3; ++volume) line.take(volume, volume, 30, kLong);
  line.take(4, 4, 30, kLong);
  line.take(5, 5, 5, kLong);
  CHECK(line.served == std::vector{1, 2, 3});
  line.release(2);
  CHECK(line.served == std::vector{1, 2, 3, 4, 5});
}

TEST_CASE("what is longer than the part of its volume goes alone") {
  Line line;
  line.take(1, 1, 70, kLong);
  line.take(2, 1, 1, kLong);
  CHECK(line.served == std::vector{1});
  line.held[1]->shrink_to(10);
  line.settle();
  CHECK(line.served == std::vector{1, 2});
  line.release(1);
  line.release(2);
  CHECK(line.line->held_bytes() == 0);
}

TEST_CASE("who finds no room in time is not in the way of the next") {
  Line line;
  line.take(1, 1, 40, kLong);
  line.take(2, 1, 40, std::chrono::seconds(1));
  line.take(3, 1, 0, kLong);
  line.clock.advance(std::chrono::seconds(2));
  line.settle();
  CHECK(line.failed == std::vector{2});
  CHECK(line.served == std::vector{1, 3});
  CHECK(line.line->waiting() == 0);
}

}  // namespace
}  // namespace penstock
