#include "gateway/bench/load_sources.h"

#include <doctest/doctest.h>

#include <set>

namespace penstock {
namespace {

LoadOutcome outcome(bool good) {
  LoadOutcome made;
  made.good = good;
  if (!good) made.error = "status 503 SlowDown";
  return made;
}

PersistentSource source_of(std::uint64_t count) {
  return {[](std::uint64_t, LoadRequest& request) { request.head = "x"; }, count};
}

TEST_CASE("what must succeed is sent again when it has failed, later each time") {
  PersistentSource source = source_of(3);
  const BenchTime now = bench_now();
  LoadRequest request;
  std::set<std::uint64_t> sent;
  Duration waited{};
  for (int failures = 0; failures < 3; ++failures) {
    REQUIRE(source.next(now, request) == LoadSource::Turn::send);
    CHECK(request.number == 0);
    CHECK((failures == 0 || request.intended - now > waited));
    waited = request.intended - now;
    source.done(request, outcome(false));
  }
  while (source.next(now, request) == LoadSource::Turn::send) {
    sent.insert(request.number);
    source.done(request, outcome(true));
  }
  CHECK(sent == std::set<std::uint64_t>{0, 1, 2});
  CHECK(source.lost().empty());
}

TEST_CASE("what fails again and again ends the whole, and is told") {
  PersistentSource source = source_of(1'000);
  LoadRequest request;
  std::uint32_t sent = 0;
  while (source.next(bench_now(), request) == LoadSource::Turn::send) {
    ++sent;
    source.done(request, outcome(false));
  }
  CHECK(sent == PersistentSource::kTriesMax);
  CHECK(source.lost() == "status 503 SlowDown");
}

}  // namespace
}  // namespace penstock
