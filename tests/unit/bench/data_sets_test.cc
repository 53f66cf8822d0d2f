#include "gateway/bench/data_sets.h"

#include <doctest/doctest.h>

namespace penstock {
namespace {

TEST_CASE("the size of a set is in its keys, so that two scales do not take each other's objects") {
  const DataSet one = data_set(SetName::big, 1);
  const DataSet half = data_set(SetName::big, 0.5);
  CHECK(one.key(3) == "penstock-bench/big-4x536870912/0000003");
  CHECK(one.marker() == "penstock-bench/big-4x536870912.ready");
  CHECK(half.prefix() != one.prefix());
  CHECK(half.bytes == 256 << 20);
}

TEST_CASE("a tiny scale leaves sets that can be read") {
  for (const SetName name :
       {SetName::big, SetName::volumes, SetName::samples, SetName::cosmo, SetName::images,
        SetName::small, SetName::items, SetName::mixed_large, SetName::mixed_small}) {
    const DataSet set = data_set(name, 0.001);
    CHECK(set.count >= 2);
    CHECK(set.bytes >= 4096);
  }
  CHECK(data_set(SetName::big, 0.001).bytes % (8 << 20) == 0);
}

TEST_CASE("objects that differ in length do so in every run, and on average have what is said") {
  const DataSet set{"s", 2'000, 1'000'000, 400'000, 1};
  double sum = 0;
  for (std::uint64_t i = 0; i < set.count; ++i) {
    CHECK(set.bytes_of(i) == set.bytes_of(i));
    CHECK(set.bytes_of(i) >= 250'000);
    CHECK(set.bytes_of(i) <= 2'000'000);
    sum += static_cast<double>(set.bytes_of(i));
  }
  CHECK(sum / 2'000 == doctest::Approx(1'000'000).epsilon(0.05));
}

}  // namespace
}  // namespace penstock
