#include "server/cluster/key_queue.h"

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

}  // namespace penstock
