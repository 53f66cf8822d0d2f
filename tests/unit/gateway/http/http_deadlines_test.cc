#include "gateway/http/http_deadlines.h"

#include <doctest/doctest.h>

using namespace penstock;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {
constexpr Duration kTick = milliseconds(250);

struct Probe final : DeadlineWheel::Entry {
  int fired = 0;
  void on_deadline() override { ++fired; }
};
struct DeadlineBench {
  BootTime now{seconds(1000)};
  DeadlineWheel wheel{now, kTick};
  void pass(Duration time) { wheel.advance(now += time); }
};
}  // namespace

TEST_CASE("a deadline fires once, never early and at most two ticks late") {
  for (const Duration after : {Duration(1), Duration(kTick), Duration(seconds(30)),
                               Duration(seconds(75)), Duration(seconds(1000))}) {
    DeadlineBench bench;
    Probe probe;
    bench.pass(milliseconds(130));
    const BootTime armed = bench.now;
    bench.wheel.arm(probe, after);
    while (probe.fired == 0 && bench.now < armed + after + 3 * kTick) {
      bench.pass(kTick);
      if (probe.fired > 0) CHECK(bench.now >= armed + after);
    }
    CHECK(probe.fired == 1);
    CHECK(bench.now <= armed + after + 3 * kTick);
    bench.pass(seconds(5000));
    CHECK(probe.fired == 1);
  }
}

TEST_CASE("a disarmed or destroyed entry does not fire") {
  DeadlineBench bench;
  Probe probe;
  bench.wheel.arm(probe, seconds(1));
  DeadlineWheel::disarm(probe);
  {
    Probe gone;
    bench.wheel.arm(gone, seconds(1));
  }
  bench.pass(seconds(10));
  CHECK(probe.fired == 0);
}

TEST_CASE("arming again moves a deadline both ways") {
  DeadlineBench bench;
  Probe later;
  Probe sooner;
  bench.wheel.arm(later, seconds(1));
  bench.wheel.arm(later, seconds(60));
  bench.wheel.arm(sooner, seconds(60));
  bench.wheel.arm(sooner, seconds(1));
  bench.pass(seconds(2));
  CHECK(later.fired == 0);
  CHECK(sooner.fired == 1);
  bench.pass(seconds(60));
  CHECK(later.fired == 1);
}

TEST_CASE("an entry may arm again while it fires") {
  struct Again final : DeadlineWheel::Entry {
    explicit Again(DeadlineWheel& w) : wheel(w) {}
    void on_deadline() override {
      ++fired;
      wheel.arm(*this, seconds(1));
    }
    DeadlineWheel& wheel;
    int fired = 0;
  };
  DeadlineBench bench;
  Again again(bench.wheel);
  bench.wheel.arm(again, seconds(1));
  for (int i = 0; i < 40; ++i) bench.pass(kTick);
  CHECK(again.fired >= 6);
  CHECK(again.fired <= 10);
}

TEST_CASE("a turn that comes late counts as two ticks") {
  DeadlineBench bench;
  const BootTime before = bench.wheel.unhurried();
  bench.pass(kTick);
  CHECK(bench.wheel.unhurried() - before == Duration(kTick));
  bench.pass(seconds(60));
  CHECK(bench.wheel.unhurried() - before == Duration(3 * kTick));
}
