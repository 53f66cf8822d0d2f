#include "penstock/worker_pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "penstock/caught.h"

namespace penstock {
namespace {

// Jobs that wait at it until it is opened.
class Door {
 public:
  std::function<void()> job() {
    return [this] {
      std::unique_lock lock(mutex_);
      ++inside_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
      --inside_;
      changed_.notify_all();
    };
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_until_inside(int jobs) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, jobs] { return inside_ == jobs; });
  }
  int inside() {
    const std::lock_guard lock(mutex_);
    return inside_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  bool open_ = false;
};

void run_through(Worker& worker) {
  std::promise<void> done;
  worker.submit([&done] { done.set_value(); });
  done.get_future().get();
}

TEST_CASE("The jobs of a worker for one at a time run in order, whichever threads run them") {
  WorkerPool pool("pool", 4);
  std::vector<int> order;
  {
    const auto worker = pool.make_worker("first", 1);
    const auto other = pool.make_worker("other", 4);
    for (int i = 0; i < 1'000; ++i) {
      worker->submit([&order, i] { order.push_back(i); });
      other->submit([] {});
    }
  }  // the destructor has run all
  REQUIRE(order.size() == 1'000);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(pool.threads() <= 4);
}

TEST_CASE("A worker keeps no more threads busy than it may, and so does the pool") {
  WorkerPool pool("pool", 3);
  Door door;
  const auto two = pool.make_worker("two", 2);
  const auto one = pool.make_worker("one", 1);
  CHECK(pool.threads() == 1);
  for (int i = 0; i < 4; ++i) two->submit(door.job());
  door.wait_until_inside(2);
  run_through(*one);  // a third thread
  CHECK(door.inside() == 2);
  CHECK(pool.threads() == 3);
  const auto late = pool.make_worker("late", 2);
  Door second;
  late->submit(second.job());
  second.wait_until_inside(1);
  std::atomic<bool> ran{false};
  one->submit([&ran] { ran = true; });  // no thread is left
  CHECK(pool.threads() == 3);
  CHECK_FALSE(ran);
  second.open();
  door.open();
  run_through(*one);
  CHECK(ran);
}

TEST_CASE("Workers are served in rotation: a long queue of one does not hold up another") {
  WorkerPool pool("pool", 1);
  Door door;
  std::atomic<int> before{0};
  const auto gate = pool.make_worker("gate", 1);
  const auto many = pool.make_worker("many", 1);
  const auto few = pool.make_worker("few", 1);
  gate->submit(door.job());
  door.wait_until_inside(1);
  for (int i = 0; i < 100; ++i) many->submit([&before] { ++before; });
  std::promise<int> seen;
  few->submit([&] { seen.set_value(before.load()); });
  door.open();
  CHECK(seen.get_future().get() <= 1);
}

TEST_CASE("Threads that hang in an abandoned worker are replaced, and end when they come back") {
  Door door;
  {
    WorkerPool pool("pool", 2);
    auto hung = pool.make_worker("hung", 2);
    const auto other = pool.make_worker("other", 1);
    std::atomic<bool> forgotten{false};
    for (int i = 0; i < 2; ++i) hung->submit(door.job());
    door.wait_until_inside(2);
    hung->submit([&forgotten] { forgotten = true; });
    std::promise<void> waits;
    other->submit([&waits] { waits.set_value(); });
    hung->abandon();
    waits.get_future().get();
    hung->submit([&forgotten] { forgotten = true; });
    hung.reset();  // waits for nothing
    CHECK(pool.threads() == 1);
    run_through(*other);
    CHECK_FALSE(forgotten);
  }  // and so does the pool
  CHECK(door.inside() == 2);
  door.open();
  door.wait_until_inside(0);
}

TEST_CASE("Threads that find nothing to do end, but one") {
  WorkerPool pool("pool", 8, std::chrono::milliseconds(1));
  Door door;
  const auto worker = pool.make_worker("worker", 8);
  for (int i = 0; i < 8; ++i) worker->submit(door.job());
  door.wait_until_inside(8);
  CHECK(pool.threads() == 8);
  door.open();
  while (pool.threads() > 1) std::this_thread::yield();
  run_through(*worker);
}

TEST_CASE("What a job of a pool throws is told to its worker alone") {
  const std::uint64_t before = exceptions_caught();
  WorkerPool pool("pool", 1);
  std::vector<std::string> told;
  const auto worker = pool.make_worker("thrower", 1);
  const auto other = pool.make_worker("other", 1);
  worker->on_thrown([&told](const Error& error) { told.push_back(error.context); });
  worker->submit([] { throw std::runtime_error("planted"); });
  run_through(*worker);
  run_through(*other);
  CHECK(exceptions_caught() == before + 1);
  CHECK(told == std::vector<std::string>{"exception in a job of thrower: planted"});
}

TEST_CASE("Many threads submit to many workers: each job runs once") {
  WorkerPool pool("pool", 5, std::chrono::milliseconds(1));
  std::atomic<int> ran{0};
  std::atomic<int> at_once{0};
  std::atomic<bool> too_many{false};
  {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int i = 0; i < 8; ++i) workers.push_back(pool.make_worker("w", 1 + i % 3));
    std::vector<std::jthread> submitters;
    for (int t = 0; t < 4; ++t) {
      submitters.emplace_back([&] {
        for (int i = 0; i < 5'000; ++i) {
          workers[static_cast<std::size_t>(i % 8)]->submit([&] {
            if (++at_once > 5) too_many = true;
            ++ran;
            --at_once;
          });
        }
      });
    }
  }
  CHECK(ran == 20'000);
  CHECK_FALSE(too_many);
}

TEST_CASE("Threads that sleep for an hour are woken, each by a job of its own, and by the end") {
  constexpr unsigned kThreads = 8;
  WorkerPool pool("sleepy", kThreads, std::chrono::hours(1));
  for (int round = 0; round < 100; ++round) {
    const auto worker = pool.make_worker("worker", kThreads);
    Door door;
    for (unsigned i = 0; i < kThreads; ++i) worker->submit(door.job());
    door.wait_until_inside(kThreads);
    door.open();
    door.wait_until_inside(0);
  }
  CHECK(pool.threads() == kThreads);
}

}  // namespace
}  // namespace penstock
