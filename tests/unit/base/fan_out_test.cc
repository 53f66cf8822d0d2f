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
  FanOut<int>::Enough enough = [&asked] { return asked.answer(0) && asked.answer(1); };
  co_await asked.wait(std::move(enough), clock, clock.boot() + kLong);
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
  co_await asked.wait_all();
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

namespace {
// Of three calls one is not made, and one comes late and is not waited for.
Task<int> ask_by_index(std::shared_ptr<Wakeup> late) {
  const auto executor = co_await boost::asio::this_coro::executor;
  FanOut<int> asked(3);
  asked.do_not_await(IndexMask::of(2));
  auto slow = [](std::shared_ptr<Wakeup> wakeup) -> Task<int> {
    co_await wakeup->wait();
    co_return 30;
  };
  asked.start_at(executor, 2, slow(late));
  asked.start_at(executor, 1, answer_soon(20));
  asked.fail_at(0, fail(Errc::unavailable, "not asked"));
  co_await asked.wait_all();
  const bool without_it = asked.answered() == IndexMask::below(2) &&
                          asked.failed_with(Errc::unavailable) == IndexMask::of(0) &&
                          asked.succeeded() == IndexMask::of(1);
  asked.await_all();
  late->notify();
  co_await asked.wait_all();
  const bool with_it = asked.where([](int number) { return number > 20; }) == IndexMask::of(2);
  co_return without_it&& with_it ? asked.answer(1)->value() + asked.answer(2)->value() : -1;
}

// What was told of the calls of one FanOut.
struct Told {
  IndexMask began, answered, ended;
  bool left = false;
};
struct Teller {
  std::shared_ptr<Told> told;
  void began(std::size_t index) { told->began.add(index); }
  void answered(std::size_t index, const Result<int>&) { told->answered.add(index); }
  void ended(std::size_t index) { told->ended.add(index); }
  void left() { told->left = true; }
};
using Held = std::optional<Completion<int>>;
Task<int> answer_held(Held* held) {
  auto start = [held](Completion<int> done) { held->emplace(std::move(done)); };
  return await_completion<int>(std::move(start));
}
Task<> ask_and_leave(std::shared_ptr<Told> told, Held* held) {
  const auto executor = co_await boost::asio::this_coro::executor;
  FanOut<int, Teller> asked(2, Teller{std::move(told)});
  asked.start_at(executor, 0, answer_soon(1));
  asked.start_at(executor, 1, answer_held(held));
  FanOut<int, Teller>::Enough first = [&asked] { return asked.answer(0).has_value(); };
  co_await asked.wait(std::move(first));
  co_return Result<>{};
}
}  // namespace

TEST_CASE("Calls have the index that they are given; who is not awaited counts if he comes") {
  boost::asio::io_context io;
  std::optional<Result<int>> done;
  boost::asio::co_spawn(io, ask_by_index(std::make_shared<Wakeup>()),
                        [&done](std::exception_ptr, Result<int> sum) { done.emplace(sum); });
  io.poll();
  REQUIRE(done);
  CHECK(done->value() == 50);
}

TEST_CASE("A call that was left behind is still told of, and so is one that is destroyed") {
  for (const bool destroyed : {false, true}) {
    CAPTURE(destroyed);
    boost::asio::io_context io;
    const auto told = std::make_shared<Told>();
    Held held;
    boost::asio::co_spawn(io, ask_and_leave(told, &held), boost::asio::detached);
    io.poll();
    REQUIRE(held);
    CHECK(told->left);
    CHECK(told->began == IndexMask::below(2));
    CHECK(told->ended == IndexMask::of(0));
    if (!destroyed) (*held)(2);
    held.reset();
    io.restart();
    io.poll();
    CHECK(told->answered == IndexMask::below(2));
    CHECK(told->ended == IndexMask::below(2));
  }
}
