#include "server/node/side_by_side.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <vector>

#include "tests/fake/code_of.h"

namespace penstock {
namespace {

TEST_CASE("Work is done for each index, beside each other as far as allowed") {
  std::latch all_three(3);  // with two at a time this would wait for ever
  std::vector<std::atomic<int>> done(3);
  const auto together = [&](std::size_t index) -> Result<> {
    all_three.arrive_and_wait();
    ++done[index];
    return {};
  };
  CHECK(run_side_by_side(3, 16, together));
  for (const auto& count : done) CHECK(count == 1);
  CHECK(run_side_by_side(0, 4, together));

  std::vector<std::size_t> order;
  const auto note = [&order](std::size_t index) -> Result<> {
    order.push_back(index);  // no other thread
    return {};
  };
  CHECK(run_side_by_side(5, 1, note));
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3, 4});
}

TEST_CASE("After an error no other work begins, and the lowest index that failed tells") {
  std::vector<std::size_t> begun;
  const auto third_fails = [&begun](std::size_t index) -> Result<> {
    begun.push_back(index);
    if (index == 2) return fail(Errc::full, "no room");
    return {};
  };
  CHECK(code_of(run_side_by_side(9, 1, third_fails)) == Errc::full);
  CHECK(begun.size() == 3);

  std::latch both(2);
  const auto both_fail = [&both](std::size_t index) -> Result<> {
    both.arrive_and_wait();
    if (index == 0) throw std::runtime_error("planted");
    return fail(Errc::full, "no room");
  };
  CHECK(code_of(run_side_by_side(2, 2, both_fail)) == Errc::io);
}

}  // namespace
}  // namespace penstock
