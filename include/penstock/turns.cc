#include "penstock/turns.h"

#include <boost/asio/this_coro.hpp>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "penstock/alarm.h"
#include "penstock/assert.h"
#include "penstock/async.h"

namespace penstock {

struct Turns::Turn::State {
  explicit State(std::size_t at_once) : free(at_once) {}

  using Waiter = std::shared_ptr<const Completion<void>>;

  // Null: there was a free one, it is taken.
  Waiter queue_up(std::uint32_t party, Completion<void> come) {
    const std::lock_guard lock(mutex);
    if (free > 0) {
      --free;
      come(Result<>{});
      return nullptr;
    }
    ++waiting;
    auto& queue = waiters[party];
    queue.push_back(std::make_shared<const Completion<void>>(std::move(come)));
    return queue.back();
  }
  void leave(std::uint32_t party, const Waiter& waiter) {
    const std::lock_guard lock(mutex);
    const auto queue = waiters.find(party);
    if (queue == waiters.end() || std::erase(queue->second, waiter) == 0) return;  // its turn came
    if (queue->second.empty()) waiters.erase(queue);
    --waiting;
    (*waiter)(fail(Errc::overloaded, "too many do this at a time"));
  }
  void give_back() {
    const std::lock_guard lock(mutex);
    if (waiters.empty()) {
      ++free;
      return;
    }
    auto queue = waiters.upper_bound(last_party);
    if (queue == waiters.end()) queue = waiters.begin();
    last_party = queue->first;
    const Waiter next = std::move(queue->second.front());
    queue->second.pop_front();
    if (queue->second.empty()) waiters.erase(queue);
    --waiting;
    (*next)(Result<>{});
  }

  mutable std::mutex mutex;  // guards the others
  std::size_t free;
  std::size_t waiting = 0;
  std::uint32_t last_party = 0;                         // that got a turn of another
  std::map<std::uint32_t, std::deque<Waiter>> waiters;  // by party; none is empty
};

Turns::Turns(std::size_t at_once) : state_(std::make_shared<Turn::State>(at_once)) {
  PENSTOCK_ASSERT(at_once > 0);
}

Turns::~Turns() = default;

Turns::Turn::~Turn() {
  if (state_) state_->give_back();
}

std::size_t Turns::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting;
}

Task<Turns::Turn> Turns::take(Clock& clock, std::uint32_t party, BootTime until) {
  const auto state = state_;
  const auto executor = co_await boost::asio::this_coro::executor;
  std::optional<Alarm> alarm;
  auto start = [state, party, &alarm, &clock, executor, until](Completion<void> come) {
    const auto waiter = state->queue_up(party, std::move(come));
    if (waiter == nullptr) return;
    alarm.emplace(executor, clock, until, [state, party, waiter] { state->leave(party, waiter); });
  };
  CO_CHECK(co_await await_completion<void>(std::move(start)));
  co_return Turn(state);
}

}  // namespace penstock
