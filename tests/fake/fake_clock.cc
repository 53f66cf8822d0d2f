#include "tests/fake/fake_clock.h"

#include <boost/asio/associated_cancellation_slot.hpp>

namespace penstock {

Awaitable<void> FakeClock::sleep_until(BootTime when) {
  if (when <= boot_) co_return;
  auto initiate = [waiters = waiters_, when](auto handler) {
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    Completion<void> done(std::move(handler));
    const auto at = waiters->emplace(when, done);
    if (!slot.is_connected()) return;
    auto gone = std::make_shared<bool>(false);
    slot.assign([waiters, done, at, gone, when](boost::asio::cancellation_type) {
      if (std::exchange(*gone, true)) return;
      // The entry may have been woken already: look for it instead of trusting the iterator.
      const auto [first, last] = waiters->equal_range(when);
      for (auto i = first; i != last; ++i) {
        if (i != at) continue;
        waiters->erase(i);
        break;
      }
      done(Result<>{});
    });
  };
  using Token = const boost::asio::use_awaitable_t<Executor>;
  auto woken = co_await boost::asio::async_initiate<Token, void(Result<>)>(initiate, use_task);
  (void)woken;
}

void FakeClock::advance(Duration by) {
  boot_ += by;
  wall_ += by;
  wake_due();
}

bool FakeClock::advance_to_next() {
  if (waiters_->empty()) return false;
  const BootTime next = waiters_->begin()->first;
  if (next > boot_) {
    wall_ += next - boot_;
    boot_ = next;
  }
  wake_due();
  return true;
}

void FakeClock::wake_due() {
  while (!waiters_->empty() && waiters_->begin()->first <= boot_) {
    const Completion<void> done = waiters_->begin()->second;
    waiters_->erase(waiters_->begin());
    done(Result<>{});
  }
}

bool run_until(boost::asio::io_context& io, FakeClock& clock, const std::function<bool()>& done) {
  while (!done()) {
    io.restart();
    if (io.poll_one() > 0) continue;
    if (!clock.advance_to_next()) return done();
  }
  return true;
}

void run_all(boost::asio::io_context& io, FakeClock& clock) {
  run_until(io, clock, [] { return false; });
}

}  // namespace penstock
