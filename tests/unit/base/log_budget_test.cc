#include "penstock/log_budget.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

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

}  // namespace
}  // namespace penstock
