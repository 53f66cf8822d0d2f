#include "gateway/s3/request_times.h"

#include <doctest/doctest.h>

#include "tests/fake/fake_clock.h"

namespace penstock {
namespace {

TEST_CASE("phases do not overlap: what waits within another counts for the inner one") {
  FakeClock clock;
  RequestTimes times;
  {
    const PhaseTimer record(&times, clock, Phase::record);
    clock.advance(Duration(1500));
    {
      const PhaseTimer data(&times, clock, Phase::data);
      clock.advance(Duration(20));
      const PhaseTimer queue(&times, clock, Phase::queue);
      clock.advance(Duration(12'000));
    }
    clock.advance(Duration(1));
  }
  CHECK(times.header() == "auth;dur=0.000, record;dur=1.501, data;dur=0.020, queue;dur=12.000");
}

TEST_CASE("who does not ask pays for no look at the clock") {
  struct NoClock final : Clock {
    WallTime wall() const override { return {}; }
    BootTime boot() const override {
      FAIL("asked for the time");
      return {};
    }
    Awaitable<void> sleep_until(BootTime) override { co_return; }
  };
  const NoClock clock;
  const PhaseTimer timer(nullptr, clock, Phase::data);
}

}  // namespace
}  // namespace penstock
