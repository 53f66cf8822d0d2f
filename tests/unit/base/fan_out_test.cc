// What a wait leaves behind when it has ended.
#include "penstock/fan_out.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "penstock/wakeup.h"
#include "tests/fake/fake_clock.h"

using namespace penstock;

namespace {
constexpr auto kLong = std::chrono::hours(1);

Task<int> answer_soon(int number) {
  const auto executor = co_await boost::asio::this_coro::executor;
  co_await boost::asio::post(executor, use_task);
  co_return number;
}

// Two answers are enough; the third never comes in time.
Task<int> ask_three(Clock& clock, std::shared_ptr<Wakeup> never) {
  const auto executor = co_await boost::asio::this_coro::executor;
  FanOut<int> asked;
  asked.start(executor, answer_soon(1));
  asked.start(executor, answer_soon(2));
  auto late = [](Clock* the_clock, std::shared_ptr<Wakeup> wakeup) -> Task<int> {
    co_await wakeup->wait(*the_clock, the_clock->boot() + 2 * kLong);
    co_return 3;
  };
  asked.start(executor, late(&clock, std::move(never)));
  FanOut<int>::Enough enough = [](const FanOut<int>::Answers& answers) {
    return answers[0] && answers[1];
  };
  CO_CHECK(co_await asked.wait(std::move(enough), clock, clock.boot() + kLong));
  co_return asked.answers()[0]->value() + asked.answers()[1]->value();
}

Task<int> ask_many(Clock& clock, int times) {
  int sum = 0;
  for (int i = 0; i < times; ++i) {
    auto never = std::make_shared<Wakeup>();
    CO_TRY(got, co_await ask_three(clock, never));
    sum += got;
    never->notify();
  }
  co_return sum;
}

// The second call throws; without its answer the wait would have no end.
Task<int> ask_with_a_thrower() {
  const auto executor = co_await boost::asio::this_coro::executor;
  FanOut<int> asked;
  asked.start(executor, answer_soon(1));
  auto thrower = []() -> Task<int> {
    const auto here = co_await boost::asio::this_coro::executor;
    co_await boost::asio::post(here, use_task);
    throw std::runtime_error("planted");
  };
  asked.start(executor, thrower());
  CO_CHECK(co_await asked.wait_all());
  if (!asked.answers()[0] || !asked.answers()[1] || *asked.answers()[1]) co_return -1;
  co_return asked.answers()[1]->error().code == Errc::io ? asked.answers()[0]->value() : -2;
}
}  // namespace

TEST_CASE("A call that throws is an answer with an error") {
  boost::asio::io_context io;
  std::optional<Result<int>> done;
  boost::asio::co_spawn(io, ask_with_a_thrower(), [&done](std::exception_ptr, Result<int> sum) {
    done.emplace(std::move(sum));
  });
  io.run();
  REQUIRE(done);
  CHECK(done->value() == 1);
}

TEST_CASE("A fan-out that has enough sleeps no longer; who is late keeps only its own wait") {
  boost::asio::io_context io;
  FakeClock clock;
  auto never = std::make_shared<Wakeup>();
  auto done = std::make_shared<std::optional<Result<int>>>();
  boost::asio::co_spawn(io, ask_three(clock, never),
                        [done](std::exception_ptr, Result<int> sum) { *done = std::move(sum); });
  io.poll();  // time stands still
  REQUIRE(done->has_value());
  CHECK((*done)->value() == 3);
  CHECK(clock.waiters() == 1);
  never->notify();
  io.restart();
  io.poll();
  CHECK(clock.waiters() == 0);
}

TEST_CASE("Timers of waits that ended do not pile up") {
  boost::asio::io_context io;
  RealClock clock;
  auto done = std::make_shared<std::optional<Result<int>>>();
  boost::asio::co_spawn(io, ask_many(clock, 1000),
                        [done](std::exception_ptr, Result<int> sum) { *done = std::move(sum); });
  io.run_for(std::chrono::seconds(60));  // a timer that is left would keep it for an hour
  REQUIRE(done->has_value());
  CHECK((*done)->value() == 3000);
  CHECK(io.stopped());
}
