#include "server/proposer/key_queue.h"

#include <boost/asio/this_coro.hpp>

#include "penstock/alarm.h"
#include "penstock/assert.h"
#include "penstock/limits.h"

namespace penstock {

// The turn comes from another thread, so it may come before the wait has begun.
struct KeyQueue::Waiter {
  bool has_turn = false;                  // guarded by the mutex of its key's part
  std::optional<Completion<void>> awake;  // guarded by the mutex of its key's part
};

std::size_t KeyQueue::Hash::operator()(const RegisterKey& key) const {
  const std::hash<std::string_view> of;
  return of(key.key) ^ mix_hash(key.bucket.value + key.part) ^ (of(key.upload_id) << 1) ^
         static_cast<std::size_t>(key.kind);
}

Result<std::shared_ptr<KeyQueue::Waiter>> KeyQueue::join(const RegisterKey& key) {
  Part& part = part_of(key);
  const CountedLock lock(part.mutex);
  const auto [at, first] = part.queues.try_emplace(key);
  if (first) return std::shared_ptr<Waiter>();
  if (at->second.size() >= limits::kKeyQueueMax) {
    return fail(Errc::overloaded, "too many updates of one key");
  }
  return at->second.emplace_back(std::make_shared<Waiter>());
}

void KeyQueue::next(const RegisterKey& key) {
  std::optional<Completion<void>> awake;
  {
    Part& part = part_of(key);
    const CountedLock lock(part.mutex);
    const auto at = part.queues.find(key);
    PENSTOCK_ASSERT(at != part.queues.end() && "who leaves was in");
    if (at->second.empty()) {
      part.queues.erase(at);
      return;
    }
    const auto waiter = std::move(at->second.front());
    at->second.pop_front();
    PENSTOCK_ASSERT(!waiter->has_turn);
    waiter->has_turn = true;
    awake = std::exchange(waiter->awake, std::nullopt);  // the alarm may still ring
  }
  if (awake) (*awake)(Result<>{});
}

bool KeyQueue::give_up(const RegisterKey& key, const std::shared_ptr<Waiter>& waiter) {
  Part& part = part_of(key);
  const CountedLock lock(part.mutex);
  if (waiter->has_turn) return false;
  const auto at = part.queues.find(key);
  PENSTOCK_ASSERT(at != part.queues.end() && "somebody has the turn");
  const std::size_t erased = std::erase(at->second, waiter);
  PENSTOCK_ASSERT(erased == 1);
  return true;
}

Task<KeyQueue::Turn> KeyQueue::enter(RegisterKey key, Deadline deadline) {
  CO_TRY(waiter, join(key));
  if (waiter != nullptr) {
    CountedMutex& mutex = part_of(key).mutex;
    auto begin = [&mutex, waiter](Completion<void> done) {
      const CountedLock lock(mutex);
      if (waiter->has_turn) return done(Result<>{});
      waiter->awake.emplace(std::move(done));
    };
    auto ring = [&mutex, waiter] {
      const CountedLock lock(mutex);
      if (waiter->awake) (*waiter->awake)(Result<>{});
    };
    const auto executor = co_await boost::asio::this_coro::executor;
    const Alarm alarm(executor, clock_, deadline, std::move(ring));
    CO_CHECK(co_await await_completion<void>(std::move(begin)));
    if (give_up(key, waiter)) {
      co_return fail(Errc::unavailable, "earlier updates of the key took too long");
    }
  }
  co_return Turn(*this, std::move(key));
}

}  // namespace penstock
