#include "tests/sim/sim_time.h"

#include <algorithm>

namespace penstock::sim {

void SimTime::at(SimMicros when, std::function<void()> event) {
  std::uint32_t place = static_cast<std::uint32_t>(events_.size());
  if (free_places_.empty()) {
    events_.push_back(std::move(event));
  } else {
    place = free_places_.back();
    free_places_.pop_back();
    events_[place] = std::move(event);
  }
  due_.push_back(Due{std::max(when, now_), ++added_, place});
  std::push_heap(due_.begin(), due_.end());
}

// Pre: there is one.
std::function<void()> SimTime::take_next() {
  std::pop_heap(due_.begin(), due_.end());
  const Due next = due_.back();
  due_.pop_back();
  now_ = std::max(now_, next.when);
  auto event = std::exchange(events_[next.place], nullptr);
  free_places_.push_back(next.place);
  return event;
}

bool SimTime::run_until(const std::function<bool()>& done, SimMicros end) {
  while (true) {
    io_.restart();
    io_.poll();
    if (done()) return true;
    if (due_.empty() || due_.front().when > end) return false;
    const auto event = take_next();
    ++events_run_;
    trace(events_run_);
    event();
  }
}

void SimTime::run_beside(SimMicros end) {
  if (std::exchange(beside_, true)) return;
  run_until([] { return false; }, end);
  now_ = std::max(now_, end);
  beside_ = false;
}

void SimRandom::fill(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const std::uint64_t word = bits();
    for (int b = 0; b < 8 && i < bytes.size(); ++b, ++i)
      bytes[i] = static_cast<std::byte>(word >> (8 * b));
  }
}

std::uint64_t SimRandom::bits() {
  state_ += 0x9e3779b97f4a7c15ull;
  return mix_hash(state_);
}

std::int64_t SimRandom::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
}

bool SimRandom::chance(double probability) {
  return static_cast<double>(bits() >> 11) * (1.0 / 9007199254740992.0) < probability;
}

WallTime SimClock::wall() const {
  const auto passed = static_cast<SimMicros>(static_cast<double>(time_.now()) * rate_);
  return WallTime(Duration(kWallStart + passed + wall_offset_));
}

SimMicros SimClock::lived() const { return paused_at_.value_or(time_.now()) - paused_for_; }

BootTime SimClock::boot() const {
  return BootTime(
      Duration(kBootStart + static_cast<SimMicros>(static_cast<double>(lived()) * rate_)));
}

void SimClock::pause() {
  if (!paused_at_) paused_at_ = time_.now();
}

void SimClock::go_on() {
  if (!paused_at_) return;
  paused_for_ += time_.now() - *paused_at_;
  paused_at_.reset();
  for (const auto& waiter : std::exchange(waiting_, {})) {
    time_.after(0, [waiter] { waiter(0); });
  }
}

Awaitable<void> SimClock::run_on() {
  while (paused_at_) {
    auto start = [this](Completion<int> done) { waiting_.push_back(std::move(done)); };
    auto woken = co_await await_completion<int>(std::move(start));
    (void)woken;
  }
}

Awaitable<void> SimClock::sleep_until(BootTime when) {
  SimMicros pauses = 0;
  do {
    co_await run_on();
    pauses = paused_for_;
    const auto left =
        static_cast<SimMicros>(static_cast<double>((when - boot()).count()) / rate_) + 1;
    auto start = [this, left](Completion<int> done) {
      time_.after(std::max<SimMicros>(left, 0), [done] { done(0); });
    };
    auto woken = co_await await_completion<int>(std::move(start));
    (void)woken;
  } while (paused_at_ || pauses != paused_for_);
}

void SimTime::drop_events() {
  while (!due_.empty()) take_next();  // one by one: an end may begin something
}

struct SimWorker::State {
  SimMicros busy_until = 0;
  bool dead = false;
};

SimWorker::SimWorker(SimTime& time, SimRandom& random, SimMicros delay_max)
    : time_(time), random_(random), delay_max_(delay_max), state_(std::make_shared<State>()) {}

SimWorker::~SimWorker() { state_->dead = true; }

void SimWorker::submit(std::function<void()> job) {
  state_->busy_until = std::max(time_.now(), state_->busy_until) + random_.between(1, delay_max_);
  // The job lies in the queue of time alone. In one of the worker's own it might keep its volume
  // alive, which keeps the worker.
  time_.at(state_->busy_until, [state = state_, job = std::move(job)] {
    if (!state->dead) job();
  });
}

}  // namespace penstock::sim
