#include "server/background/removal/pace.h"

#include <doctest/doctest.h>

#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

using std::chrono::seconds;

struct PaceFixture : BackgroundWorld {
  JobProgress shown() { return context.board->read().jobs.at("things"); }
};

Task<std::size_t> turns_until(Pace* pace, Clock* clock, BootTime end) {
  std::size_t turns = 0;
  while (clock->boot() < end) {
    if (!co_await pace->turn()) co_return turns;
    ++turns;
  }
  co_return turns;
}

// Lines of progress in the log; a sink has no state of its own.
std::vector<std::string> progress_lines;
void keep_progress(LogLevel, std::string_view line) {
  if (line.find("background_progress") != std::string_view::npos) {
    progress_lines.emplace_back(line);
  }
}

}  // namespace

TEST_CASE("progress shows what is done, of how much, how fast, and that it has ended") {
  PaceFixture f;
  {
    Progress progress(f.context, "things", 10);
    CHECK(f.shown().running);
    CHECK(f.shown().done == 0);
    CHECK(f.shown().total == 10);
    CHECK(f.shown().per_second == 0);
    f.cluster.clock.advance(seconds(2));
    progress.step();
    progress.step(3);
    CHECK(f.shown().done == 4);
    CHECK(f.shown().total == 10);
    CHECK(f.shown().per_second == doctest::Approx(2));
    progress.step(8);  // more than were counted
    CHECK(f.shown().done == 12);
    CHECK(f.shown().total == 12);
  }
  CHECK_FALSE(f.shown().running);
  CHECK(f.shown().done == 12);
}

TEST_CASE("progress is told every thirty seconds, and at the end if it was told before") {
  PaceFixture f;
  std::vector<std::string>& told = progress_lines;
  told.clear();
  set_log_sink(keep_progress);
  set_log_level(LogLevel::info);  // which a FakeCluster has raised
  {
    Progress progress(f.context, "things", 0);
    f.cluster.clock.advance(seconds(29));
    progress.step();
  }
  CHECK(told.empty());
  {
    Progress progress(f.context, "things", 0);
    f.cluster.clock.advance(seconds(30));
    progress.step();
    CHECK(told.size() == 1);
    f.cluster.clock.advance(seconds(29));
    progress.step();
    CHECK(told.size() == 1);
  }
  REQUIRE(told.size() == 2);
  CHECK(told[1].find("done=2") != std::string::npos);
  set_log_sink(nullptr);
}

TEST_CASE("a job makes as many steps a second as it may, and none once the process stops") {
  PaceFixture f;
  f.context.options.steps_per_second = 50;
  Pace pace(f.context);
  const BootTime end = f.cluster.clock.boot() + seconds(10);
  const auto turns = f.cluster.run(turns_until(&pace, &f.cluster.clock, end));
  CHECK(turns.value() >= 499);
  CHECK(turns.value() <= 501);
  f.context.stopping->store(true);
  CHECK(f.cluster.run(turns_until(&pace, &f.cluster.clock, end + seconds(10))).value() == 0);
}

}  // namespace penstock
