// Virtual time of one simulated world: an ordered queue of events and the io_context that all
// coroutines run on. Nothing here knows real time; the same seed gives the same order of events.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "penstock/async.h"
#include "penstock/runtime.h"

namespace penstock::sim {

using SimMicros = std::int64_t;
inline constexpr SimMicros kMillisecond = 1'000;
inline constexpr SimMicros kSecond = 1'000'000;

class SimTime {
 public:
  SimMicros now() const { return now_; }
  boost::asio::io_context& io() { return io_; }
  // Runs `event` at `when` (not before now). Events of one time run in the order they were added.
  void at(SimMicros when, std::function<void()> event);
  void after(SimMicros delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  // Runs everything until `done` holds, or time passes `end`, or nothing is left to happen. True if
  // `done` held.
  bool run_until(const std::function<bool()>& done, SimMicros end);
  // Called by an event that takes time: runs what happens meanwhile, until `end`. Within itself it
  // runs nothing.
  void run_beside(SimMicros end);
  // Ends the world: what has not happened never will. Before the parts are destroyed that it uses.
  void drop_events();
  // Mixes what happened into the trace; two runs of one seed have one trace.
  void trace(std::uint64_t what) {
    trace_ = mix_hash(trace_ ^ (what + 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(now_)));
  }
  std::uint64_t trace_hash() const { return trace_; }
  std::uint64_t events_run() const { return events_run_; }

 private:
  // What is to happen, as a binary heap: the next one first. The events themselves stay where they
  // are while the heap is ordered.
  struct Due {
    SimMicros when;
    std::uint64_t number;  // of the event, in the order they were added
    std::uint32_t place;   // in events_
    bool operator<(const Due& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };
  std::function<void()> take_next();

  // One thread alone uses it: it needs no locks.
  boost::asio::io_context io_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  std::vector<Due> due_;
  std::vector<std::function<void()>> events_;
  std::vector<std::uint32_t> free_places_;
  std::uint64_t added_ = 0;
  SimMicros now_ = 0;
  bool beside_ = false;
  std::uint64_t trace_ = 0;
  std::uint64_t events_run_ = 0;
};

// Seeded: splitmix64.
class SimRandom final : public Random {
 public:
  explicit SimRandom(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x1234567) {}
  void fill(std::span<std::byte> bytes) override;
  std::uint64_t bits();
  std::int64_t between(std::int64_t low, std::int64_t high);  // both inclusive
  bool chance(double probability);
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(bits() % bound); }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t state_;
};

// The clock of one process: its wall time is off by an offset that faults may change, and drifts;
// its boot time only drifts.
class SimClock final : public Clock {
 public:
  SimClock(SimTime& time, SimMicros wall_offset, double rate)
      : time_(time), wall_offset_(wall_offset), rate_(rate) {}
  WallTime wall() const override;
  BootTime boot() const override;
  Awaitable<void> sleep_until(BootTime when) override;
  // The virtual machine of the process is paused: its boot time stands still, and nobody who sleeps
  // wakes up, until go_on(). Its wall time is right again then.
  void pause();
  void go_on();
  bool paused() const { return paused_at_.has_value(); }
  // Waits while it is paused.
  Awaitable<void> run_on();
  void jump(SimMicros by) { wall_offset_ += by; }
  void set_right() { wall_offset_ = 0; }
  // Shows true time from now on, without a drift.
  void agree() {
    wall_offset_ = 0;
    rate_ = 1;
  }

 private:
  SimMicros lived() const;  // of true time, without pauses
  static constexpr SimMicros kWallStart = 1'700'000'000'000'000;
  static constexpr SimMicros kBootStart = 1'000'000'000;
  SimTime& time_;
  SimMicros wall_offset_;
  double rate_;
  std::optional<SimMicros> paused_at_;
  SimMicros paused_for_ = 0;              // in all, before that
  std::vector<Completion<int>> waiting_;  // for the end of the pause
};

// Runs jobs one after another, each after a short seeded delay, as a disk thread would. Its end
// forgets what waits: a crash.
class SimWorker final : public Worker {
 public:
  SimWorker(SimTime& time, SimRandom& random, SimMicros delay_max);
  ~SimWorker() override;
  void submit(std::function<void()> job) override;

 private:
  struct State;
  SimTime& time_;
  SimRandom& random_;
  SimMicros delay_max_;
  std::shared_ptr<State> state_;
};

}  // namespace penstock::sim
