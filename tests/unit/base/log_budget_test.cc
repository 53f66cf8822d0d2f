#include "penstock/log_budget.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "penstock/repeat_budget.h"

namespace penstock {
namespace {

using std::chrono::seconds;

TEST_CASE("a budget of lines begins anew each second") {
  LogBudget budget(2);
  const BootTime now{seconds(7)};
  CHECK(budget.take(now));
  CHECK(budget.take(now));
  CHECK_FALSE(budget.take(now));
  CHECK(budget.take(now + seconds(1)));
}

TEST_CASE("beyond the budget each of some reasons is told once a second") {
  ReasonBudget budget(2, 3);
  const BootTime now{seconds(7)};
  for (int line = 0; line < 2; ++line) CHECK(budget.take(now, "first"));
  CHECK_FALSE(budget.take(now, "first"));
  CHECK(budget.take(now, "second"));
  CHECK(budget.take(now, "third"));
  CHECK_FALSE(budget.take(now, "second"));
  CHECK_FALSE(budget.take(now, "fourth"));  // who makes up reasons fills no disk
  CHECK(budget.take(now + seconds(1), "fourth"));
}

TEST_CASE("what is news is told at once, and a repeat of any of it once a second with a count") {
  RepeatBudget budget(2);
  const BootTime now{seconds(7)};
  CHECK(budget.take(now, "v1") == 0);
  CHECK(budget.take(now, "v2") == 0);
  CHECK(budget.take(now, "v1") == 0);  // the second's repeat
  for (int line = 0; line < 9; ++line) CHECK(!budget.take(now, line % 2 == 0 ? "v1" : "v2"));
  CHECK(budget.take(now + seconds(1), "v2") == 9);
  CHECK(!budget.take(now + seconds(1), "v3"));  // no room for news of a third
  CHECK(budget.take(now + seconds(2), "v1") == 1);
  const BootTime later = now + seconds(3) + RepeatBudget::kForgets;
  CHECK(budget.take(later, "v3") == 0);
  CHECK(budget.take(later, "v1") == 0);
  CHECK(budget.take(later, "v1") == 0);
  CHECK(!budget.take(later, "v3"));
}

}  // namespace
}  // namespace penstock
