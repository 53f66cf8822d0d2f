#include "gateway/clock_offsets.h"

#include <doctest/doctest.h>

#include "penstock/limits.h"

namespace penstock {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<ClockOffset> peers(std::vector<Duration> offsets) {
  std::vector<ClockOffset> all;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    all.push_back({"s" + std::to_string(i + 1), offsets[i]});
  }
  return all;
}

TEST_CASE("clocks that are nearly right are not mentioned") {
  const auto report = judge_clocks(peers({milliseconds(300), seconds(-40), seconds(2)}), false);
  CHECK(*report.own == milliseconds(-300));
  CHECK(clock_lines(report).empty());
  CHECK(clock_lines(judge_clocks({}, false)).empty());
  CHECK_FALSE(judge_clocks({}, true).own);
}

TEST_CASE("a process whose clock is off says so of itself, and not of the others") {
  const auto ahead = judge_clocks(peers({hours(-1), hours(-1), seconds(-3601)}), false);
  CHECK(*ahead.own == hours(1));
  CHECK(clock_lines(ahead) ==
        "clock: 3600 s ahead of the other servers': set it; dates of objects and the ages of "
        "uploads go by it\n");
  const auto behind = judge_clocks(peers({hours(1), hours(1)}), true);
  CHECK(*behind.own == hours(-1));
  CHECK(clock_lines(behind).find("clock: 3600 s behind the other servers'") == 0);
}

TEST_CASE("of a server whose clock is off every other process tells, by its address") {
  for (const bool is_server : {false, true}) {
    const auto report = judge_clocks(peers({hours(1), Duration{}, Duration{}}), is_server);
    CHECK(*report.own == Duration{});
    CHECK(clock_lines(report) == "clock of s1: 3600 s ahead of the other servers'\n");
  }
}

TEST_CASE("one of two servers accuses nobody but the other") {
  const auto of_gateway = judge_clocks(peers({hours(1), Duration{}}), false);
  CHECK(*of_gateway.own == Duration{});
  const auto of_server = judge_clocks(peers({hours(1)}), true);
  CHECK(*of_server.own == Duration{});
  CHECK(clock_lines(of_server) == "clock of s1: 3600 s ahead of the other servers'\n");
}

TEST_CASE("what is off by just the bound is not mentioned yet") {
  const Duration bound = limits::kClockOff;
  CHECK(clock_lines(judge_clocks(peers({bound}), false)).empty());
  CHECK_FALSE(clock_lines(judge_clocks(peers({bound + Duration(1)}), false)).empty());
}

}  // namespace
}  // namespace penstock
