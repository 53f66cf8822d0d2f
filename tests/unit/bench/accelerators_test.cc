#include "gateway/bench/accelerators.h"

#include <doctest/doctest.h>

namespace penstock {
namespace {

constexpr BenchTime at(std::int64_t ms) { return BenchTime(std::chrono::milliseconds(ms)); }
constexpr TrainingShape kShape{"x", 2, Duration(100'000), 2, 0.9};

TEST_CASE("an accelerator that always finds its batch computes all the time") {
  Accelerators all(kShape, 1, at(0), at(1000));
  for (std::int64_t ms = 0; ms < 1000; ++ms) {
    while (all.begin_sample(0, at(ms))) all.sample_came(0, at(ms), true);
  }
  CHECK(all.steps() == 10);  // asked at the end, it would begin another one
  CHECK(all.utilisation(at(1000)) == doctest::Approx(1));
}

TEST_CASE("an accelerator that waits for each batch as long as it computes is busy half the time") {
  Accelerators all(kShape, 1, at(0), at(1000));
  for (std::int64_t ms = 100; ms < 1000; ms += 200) {
    for (int sample = 0; sample < 2; ++sample) {
      CHECK(all.begin_sample(0, at(ms)));
      all.sample_came(0, at(ms), true);
    }
  }
  CHECK(all.utilisation(at(1000)) == doctest::Approx(0.5));
}

TEST_CASE("readers are two batches ahead, no more") {
  Accelerators all(kShape, 1, at(0), at(1000));
  for (int sample = 0; sample < 4; ++sample) CHECK(all.begin_sample(0, at(0)));
  CHECK_FALSE(all.begin_sample(0, at(0)));
  all.sample_came(0, at(10), true);
  all.sample_came(0, at(10), true);  // a batch: it is computed from 10 to 110
  CHECK(all.begin_sample(0, at(10)));
  CHECK(all.begin_sample(0, at(10)));
  for (int sample = 0; sample < 4; ++sample) all.sample_came(0, at(20), true);
  CHECK_FALSE(all.begin_sample(0, at(50)));
  CHECK(all.ask_again(0, at(50)) == at(110));
  CHECK(all.begin_sample(0, at(110)));
}

TEST_CASE("a batch that was there early is begun when the one before ends, whenever one looks") {
  Accelerators all(kShape, 1, at(0), at(1000));
  for (int sample = 0; sample < 4; ++sample) {
    all.begin_sample(0, at(0));
    all.sample_came(0, at(0), true);
  }
  CHECK(all.utilisation(at(200)) == doctest::Approx(1));
  CHECK(all.utilisation(at(400)) == doctest::Approx(0.5));
}

TEST_CASE("what is computed outside of the window does not count, and a failed sample is none") {
  Accelerators all(kShape, 2, at(50), at(150));
  for (int sample = 0; sample < 2; ++sample) {
    all.begin_sample(0, at(0));
    all.sample_came(0, at(0), true);  // 0 to 100: half of it counts, of one of two
    all.begin_sample(1, at(0));
    all.sample_came(1, at(0), sample == 0);
  }
  CHECK(all.utilisation(at(150)) == doctest::Approx(0.25));
  CHECK(all.steps() == 1);
}

TEST_CASE("a step under way counts up to now") {
  Accelerators all(kShape, 1, at(0), at(1000));
  for (int sample = 0; sample < 2; ++sample) {
    all.begin_sample(0, at(0));
    all.sample_came(0, at(0), true);
  }
  CHECK(all.utilisation(at(50)) == doctest::Approx(1));
}

}  // namespace
}  // namespace penstock
