#include "penstock/turns.h"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "tests/fake/fake_clock.h"

using namespace penstock;

namespace {

struct World {
  boost::asio::io_context io;
  FakeClock clock;
  Turns turns{2};
  std::vector<Turns::Turn> held;
  std::string order;  // of those who got a turn, and in capitals of those who did not

  // Takes a turn as one of `party`, known by `name`.
  static Awaitable<void> ask(World& world, std::uint32_t party, char name, Duration patience) {
    auto turn = co_await world.turns.take(world.clock, party, world.clock.boot() + patience);
    world.order += turn ? name : static_cast<char>(name - 'a' + 'A');
    if (turn) world.held.push_back(std::move(*turn));
  }
  void begin(std::uint32_t party, char name, Duration patience = std::chrono::hours(1)) {
    boost::asio::co_spawn(io, ask(*this, party, name, patience), boost::asio::detached);
    run();
  }
  void give_back() {
    held.erase(held.begin());
    run();
  }
  void run() {
    io.restart();
    io.poll();
  }
};

TEST_CASE("so many at a time, the others in their order") {
  World world;
  for (const char name : {'a', 'b', 'c', 'd'}) world.begin(1, name);
  CHECK(world.order == "ab");
  CHECK(world.turns.waiting() == 2);
  world.give_back();
  CHECK(world.order == "abc");
  world.give_back();
  CHECK(world.order == "abcd");
  world.give_back();
  world.give_back();
  CHECK(world.held.empty());
  world.begin(1, 'e');
  CHECK(world.order == "abcde");
  world.held.clear();
}

TEST_CASE("one party with many does not make another one wait for all of them") {
  World world;
  for (const char name : {'a', 'b', 'c', 'd', 'e'}) world.begin(1, name);
  world.begin(2, 'x');
  world.begin(2, 'y');
  for (int i = 0; i < 4; ++i) world.give_back();
  CHECK(world.order == "abcxdy");
  world.give_back();
  CHECK(world.order == "abcxdye");
  world.held.clear();
}

TEST_CASE("who waits too long is told, and takes no turn of others") {
  World world;
  world.begin(1, 'a');
  world.begin(1, 'b');
  world.begin(1, 'c', std::chrono::seconds(1));
  world.begin(1, 'd');
  world.clock.advance(std::chrono::seconds(2));
  world.run();
  CHECK(world.order == "abC");
  world.give_back();
  CHECK(world.order == "abCd");
  CHECK(world.turns.waiting() == 0);
  world.held.clear();
}

}  // namespace
