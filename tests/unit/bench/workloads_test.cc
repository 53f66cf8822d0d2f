#include "gateway/bench/workloads.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "gateway/bench/accelerators.h"

namespace penstock {
namespace {

std::vector<std::string> named(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const Workload& workload : find_workloads(names).value()) {
    found.emplace_back(workload.name);
  }
  return found;
}

TEST_CASE("a name means its workload, or else its family without those whose numbers begin so") {
  CHECK(named({"W1"}) == std::vector<std::string>{"W1"});
  CHECK(named({"W8"}) == std::vector<std::string>{"W8"});
  CHECK(named({"W4"}) == std::vector<std::string>{"W4a", "W4b", "W4c"});
  CHECK(named({"W6get", "W3"}) == std::vector<std::string>{"W3", "W6get"});
  CHECK(named({"mlperf"}).size() == 5);
  CHECK(named({"all"}).size() == all_workloads().size());
  CHECK(named({}).size() < all_workloads().size());
}

TEST_CASE("a name that is none is told, and so is what there is no client for") {
  CHECK(find_workloads({"W99"}).error().context.find("--list") != std::string::npos);
  CHECK(find_workloads({"W"}).has_error());
  CHECK(find_workloads({""}).has_error());
  CHECK(find_workloads({"W13"}).error().context.find("TLS") != std::string::npos);
}

TEST_CASE("workloads have names of their own, and each model a shape") {
  std::set<std::string_view> names;
  for (const Workload& workload : all_workloads()) {
    CHECK(names.insert(workload.name).second);
    if (!workload.training.empty()) CHECK(training_shape(workload.training).batch > 0);
    CHECK(describe_workloads().find(workload.what) != std::string::npos);
  }
}

}  // namespace
}  // namespace penstock
