#include "gateway/s3/trace_parent.h"

#include <doctest/doctest.h>

#include <string>

namespace penstock {
namespace {

const std::string kGood = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr std::array<std::uint64_t, 2> kTrace{0x0af7651916cd43dd, 0x8448eb211c80319c};

TEST_CASE("the trace id of a good header is taken") {
  const auto trace = parse_trace_parent(kGood);
  REQUIRE(trace);
  CHECK(*trace == kTrace);
  std::string other_flags = kGood;
  other_flags.back() = 'f';
  CHECK(parse_trace_parent(other_flags) == trace);
}

TEST_CASE("what keeps not to the rules is ignored") {
  const std::string zeros(32, '0');
  const std::string parent = kGood.substr(36, 16);
  const std::string trace = kGood.substr(3, 32);
  for (const std::string& bad :
       {std::string(), std::string("00"), kGood.substr(0, 54), kGood + "-", kGood + "-00",
        kGood + " ", " " + kGood, "ff" + kGood.substr(2), "0g" + kGood.substr(2),
        "00-" + zeros + "-" + parent + "-01", "00-" + trace + "-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" + parent + "-01",
        "00-" + trace + "-B7AD6B7169203331-01", "00-" + trace + "-" + parent + "-0G",
        "00_" + trace + "-" + parent + "-01", "00-" + trace + "_" + parent + "-01",
        "00-" + trace + "-" + parent + "_01", "00-" + trace.substr(1) + "--" + parent + "-01"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_trace_parent(bad));
  }
}

TEST_CASE("of a later version what is known today is read, if it stands where it should") {
  const std::string later = "cc" + kGood.substr(2);
  CHECK(parse_trace_parent(later) == kTrace);
  CHECK(parse_trace_parent(later + "-more") == kTrace);
  CHECK_FALSE(parse_trace_parent(later + "more"));
}

TEST_CASE("a request with two of them has none") {
  S3Request request;
  CHECK(trace_of(request) == std::array<std::uint64_t, 2>{});
  request.headers.emplace_back("traceparent", kGood);
  CHECK(trace_of(request) == kTrace);
  request.headers.emplace_back("traceparent", kGood);
  CHECK(trace_of(request) == std::array<std::uint64_t, 2>{});
}

}  // namespace
}  // namespace penstock
