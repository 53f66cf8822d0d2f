#include "server/proposer/key_queue.h"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>

#include "tests/fake/fake_clock.h"

namespace penstock {

TEST_CASE("a turn that comes at the very deadline of its waiter is taken, and passed on") {
  const Duration patience = std::chrono::seconds(1);
  for (const bool deadline_first : {false, true}) {
    CAPTURE(deadline_first);
    boost::asio::io_context io;
    FakeClock clock;
    KeyQueue queue(clock);
    const auto enter = [&] {
      return run_task(io, clock, queue.enter(RegisterKey{}, clock.boot() + patience));
    };
    std::optional<KeyQueue::Turn> first = enter().value();
    std::optional<Result<KeyQueue::Turn>> second;
    auto ended = [&](std::exception_ptr, Result<KeyQueue::Turn> turn) {
      second.emplace(std::move(turn));
    };
    boost::asio::co_spawn(io, queue.enter(RegisterKey{}, clock.boot() + patience),
                          std::move(ended));
    io.restart();
    io.poll();
    CHECK(!second);
    // Both before the waiter runs again.
    if (deadline_first) clock.advance(patience);
    first.reset();
    if (!deadline_first) clock.advance(patience);
    run_all(io, clock);
    REQUIRE(second);
    CHECK(second->has_value());
    second.reset();
    CHECK(enter().has_value());
  }
}

TEST_CASE("a waiter whose turn does not come by its deadline is told so, and holds up no other") {
  const Duration patience = std::chrono::seconds(1);
  boost::asio::io_context io;
  FakeClock clock;
  KeyQueue queue(clock);
  using Entered = std::optional<Result<KeyQueue::Turn>>;
  const auto enter = [&](Duration wait) {
    const auto entered = std::make_shared<Entered>();
    boost::asio::co_spawn(io, queue.enter(RegisterKey{}, clock.boot() + wait),
                          [entered](std::exception_ptr, Result<KeyQueue::Turn> turn) {
                            entered->emplace(std::move(turn));
                          });
    io.restart();
    io.poll();
    return entered;
  };
  const auto first = enter(patience);
  REQUIRE((first->has_value() && (*first)->has_value()));
  const auto second = enter(patience);
  const auto third = enter(3 * patience);
  clock.advance(patience);
  io.restart();
  io.poll();
  REQUIRE(second->has_value());
  REQUIRE((*second)->has_error());
  CHECK((*second)->error().code == Errc::unavailable);
  CHECK_FALSE(third->has_value());
  first->reset();
  io.restart();
  io.poll();
  REQUIRE(third->has_value());
  CHECK((*third)->has_value());
}

}  // namespace penstock
