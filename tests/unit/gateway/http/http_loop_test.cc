// Who goes first when room is made: the one that rests longest, of the address that has to make it.
#include "gateway/http/http_loop.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_clock.h"

namespace penstock {
namespace {

struct NoService final : Service {
  Awaitable<void> handle(HttpExchange&) override { co_return; }
};

struct Resting final : HttpLoop::Member {
  void stop(bool at_once) override { ended = at_once; }
  bool give_way(HttpLoop::Rest) override { return ended = !busy; }
  bool busy = false;
  bool ended = false;
};

struct Loop {
  boost::asio::io_context context;
  FakeClock clock;
  NoService service;
  SystemRandom random;
  std::shared_ptr<HttpShared> shared =
      std::make_shared<HttpShared>(service, clock, random, HttpOptions());
  HttpLoop loop{context, shared};
};

TEST_CASE("of one address only its own connections go, and of them the one that rests longest") {
  Loop test;
  Resting stranger, first, second;
  test.loop.join(stranger, 1);
  test.loop.join(first, 2);
  test.loop.join(second, 2);
  for (Resting* member : {&stranger, &second, &first}) {
    test.loop.rest(*member, HttpLoop::Rest::idle);
  }
  test.loop.evict(HttpLoop::Rest::idle, BootTime::max(), 2);
  CHECK(second.ended);
  CHECK_FALSE(first.ended);
  CHECK_FALSE(stranger.ended);
  test.loop.evict(HttpLoop::Rest::idle, BootTime::max(), 2);
  CHECK(first.ended);
  CHECK_FALSE(test.loop.evict(HttpLoop::Rest::idle, BootTime::max(), 2));
  CHECK_FALSE(stranger.ended);
  CHECK(test.shared->refusals.count_of(HttpRefusal::evicted_idle) == 2);
  test.loop.evict(HttpLoop::Rest::idle, BootTime::max(), std::nullopt);
  CHECK(stranger.ended);
}

TEST_CASE("who has just been asked for something stays, and the next goes") {
  Loop test;
  Resting first, second;
  for (Resting* member : {&first, &second}) {
    test.loop.join(*member, 1);
    test.loop.rest(*member, HttpLoop::Rest::idle);
  }
  first.busy = true;
  CHECK(test.loop.evict(HttpLoop::Rest::idle, BootTime::max(), std::nullopt));
  CHECK_FALSE(first.ended);
  CHECK(second.ended);
  CHECK_FALSE(test.loop.evict(HttpLoop::Rest::idle, BootTime::max(), 1));
  first.busy = false;
  CHECK(test.loop.evict(HttpLoop::Rest::idle, BootTime::max(), 1));
  CHECK(test.shared->refusals.count_of(HttpRefusal::evicted_idle) == 2);
}

TEST_CASE("who is woken, rests in another way or not for long enough does not go") {
  Loop test;
  Resting woken, paused;
  test.loop.join(woken, 1);
  test.loop.join(paused, 1);
  test.loop.rest(woken, HttpLoop::Rest::idle);
  test.loop.wake(woken);
  test.loop.rest(paused, HttpLoop::Rest::paused);
  CHECK(test.loop.rests_since(HttpLoop::Rest::idle) == BootTime::max());
  const BootTime since = test.loop.rests_since(HttpLoop::Rest::paused);
  test.loop.evict(HttpLoop::Rest::idle, BootTime::max(), std::nullopt);
  test.loop.evict(HttpLoop::Rest::paused, since - Duration(1), std::nullopt);
  CHECK_FALSE(woken.ended);
  CHECK_FALSE(paused.ended);
  test.loop.evict(HttpLoop::Rest::paused, since, std::nullopt);
  CHECK(paused.ended);
}

}  // namespace
}  // namespace penstock
