// Time that moves only when a test says so, and a loop that lets it jump to the next waiter.
// Thread-safety: one thread.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/async.h"
#include "penstock/runtime.h"

namespace penstock {

class FakeClock final : public Clock {
 public:
  WallTime wall() const override { return wall_; }
  BootTime boot() const override { return boot_; }
  Awaitable<void> sleep_until(BootTime when) override;

  void set_wall(WallTime now) { wall_ = now; }
  // Both times go on; those whose time has come wake up (by post: run the io_context).
  void advance(Duration by);
  // Goes to the earliest waiter and wakes it. False if nobody waits.
  bool advance_to_next();
  std::size_t waiters() const { return waiters_->size(); }

 private:
  using Waiters = std::multimap<BootTime, Completion<void>>;
  void wake_due();
  WallTime wall_{Duration(1'700'000'000'000'000)};
  BootTime boot_{Duration(1'000'000'000)};
  std::shared_ptr<Waiters> waiters_ = std::make_shared<Waiters>();
};

// Runs `io` until nothing is left to do, jumping over time whenever only sleepers are left.
void run_all(boost::asio::io_context& io, FakeClock& clock);
// The same, until `done` holds. Returns whether it does.
bool run_until(boost::asio::io_context& io, FakeClock& clock, const std::function<bool()>& done);

// Runs one coroutine to its end and returns what it says; what it leaves behind may still wait.
template <class T>
T run_task(boost::asio::io_context& io, FakeClock& clock, Awaitable<T> task) {
  auto answer = std::make_shared<std::optional<T>>();
  auto ended = [answer](std::exception_ptr failed, T value) {
    if (failed) std::rethrow_exception(failed);
    answer->emplace(std::move(value));
  };
  boost::asio::co_spawn(io, std::move(task), std::move(ended));
  run_until(io, clock, [&] { return answer->has_value(); });
  return std::move(answer->value());
}

}  // namespace penstock
