#include "gateway/bench/request_pace.h"

#include <doctest/doctest.h>

namespace penstock {
namespace {

constexpr BenchTime kStart{Duration(1'000'000)};

TEST_CASE("requests are meant to begin at even distances, however many there are") {
  const RequestPace pace(4000, kStart);
  CHECK(pace.is_open());
  CHECK(pace.intended(0) == kStart);
  CHECK(pace.intended(1) == kStart + Duration(250));
  CHECK(pace.intended(4'000 * 3'600ULL) == kStart + std::chrono::hours(1));
}

TEST_CASE("what is due is what was meant to begin before") {
  const RequestPace pace(10, kStart);
  CHECK(pace.due(kStart) == 0);
  CHECK(pace.due(kStart + Duration(1)) == 1);
  CHECK(pace.due(kStart + Duration(100'000)) == 1);
  CHECK(pace.due(kStart + Duration(100'001)) == 2);
  CHECK(pace.due(kStart - Duration(1)) == 0);
  for (std::uint64_t i = 0; i < 100; ++i) CHECK(pace.due(pace.intended(i)) == i);
}

TEST_CASE("a closed loop has no pace") { CHECK_FALSE(RequestPace().is_open()); }

}  // namespace
}  // namespace penstock
