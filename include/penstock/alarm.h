// Calls a function at a given time unless it is destroyed before: the deadline of a wait. Who waits
// for coroutines on its own executor has it through Wakeup, and through FanOut for several calls.
// Thread-safety: made, rung and destroyed on one executor.
#pragma once
#include <boost/asio/cancellation_signal.hpp>
#include <functional>
#include <memory>

#include "penstock/runtime.h"

namespace penstock {

class Alarm {
 public:
  Alarm(Executor executor, Clock& clock, BootTime when, std::function<void()> ring);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  struct State {
    boost::asio::cancellation_signal cancel;
    std::function<void()> ring;  // empty once rung or given up
  };
  static Awaitable<void> run(std::shared_ptr<State> state, Clock* clock, BootTime when);
  // Shared with the sleeping coroutine, whose cancellation slot must outlive it.
  std::shared_ptr<State> state_;
};

}  // namespace penstock
