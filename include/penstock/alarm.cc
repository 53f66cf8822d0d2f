#include "penstock/alarm.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>

#include "penstock/caught.h"

namespace penstock {

Alarm::Alarm(Executor executor, Clock& clock, BootTime when, std::function<void()> ring)
    : state_(std::make_shared<State>()) {
  state_->ring = std::move(ring);
  // The handler owns the state, too: it is the last part of the coroutine that asio lets go.
  auto ended = [state = state_](std::exception_ptr) {};
  boost::asio::co_spawn(
      executor, run(state_, &clock, when),
      boost::asio::bind_cancellation_slot(state_->cancel.slot(), std::move(ended)));
}

Alarm::~Alarm() {
  if (!state_->ring) return;
  state_->ring = nullptr;
  state_->cancel.emit(boost::asio::cancellation_type::terminal);
}

Awaitable<void> Alarm::run(std::shared_ptr<State> state, Clock* clock, BootTime when) {
  try {
    co_await clock->sleep_until(when);
  } catch (...) {
    // Given up, or no memory for a timer: better early than never.
    if (state->ring) report_exception("an alarm");
  }
  if (!state->ring) co_return;
  const auto ring = std::exchange(state->ring, nullptr);
  ring();
}

}  // namespace penstock
