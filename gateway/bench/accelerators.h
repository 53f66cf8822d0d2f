// Emulated accelerators, as in MLPerf Storage: each takes a batch of samples and computes for a
// published time, while its readers fetch the next batches. What counts is how much of the time it
// computes. Published shapes: github.com/mlcommons/storage, configs/dlio/workload, of the H100
// (retinanet: B200).
// No clock and no I/O: the caller says when what happened.
// Thread-safety: one thread at a time.
#pragma once
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "gateway/bench/bench_clock.h"

namespace penstock {

struct TrainingShape {
  std::string_view name;
  std::uint32_t batch = 1;    // samples a step
  Duration compute{};         // of a step
  std::uint32_t readers = 1;  // connections of each accelerator
  double enough = 0.9;        // the share of time computing with which a result passes
};
// Pre: it is one of workloads.h.
TrainingShape training_shape(std::string_view name);

class Accelerators {
 public:
  // Batches that the readers are ahead of the accelerator, as data loaders are.
  static constexpr std::uint32_t kAhead = 2;

  // Counted is the time between `from` and `until`.
  Accelerators(TrainingShape shape, std::uint32_t count, BenchTime from, BenchTime until);

  // Whether a reader of this accelerator may fetch another sample now; then it is under way.
  bool begin_sample(std::uint32_t accelerator, BenchTime now);
  // When it is worth to ask again, after begin_sample() said no.
  BenchTime ask_again(std::uint32_t accelerator, BenchTime now) const;
  // A sample has come, or has failed and will not.
  void sample_came(std::uint32_t accelerator, BenchTime now, bool good);

  // The share of the time counted that the accelerators have computed, 0 … 1.
  double utilisation(BenchTime now);
  std::uint64_t steps() const { return steps_; }

 private:
  struct One {
    std::uint32_t under_way = 0;
    std::uint32_t come = 0;          // of the batch that is being gathered
    std::deque<BenchTime> complete;  // batches, by when their last sample came
    BenchTime busy_until{};
    Duration computed{};
  };
  void advance(One& one, BenchTime now);
  Duration counted(BenchTime begin, BenchTime end) const;

  const TrainingShape shape_;
  const BenchTime from_;
  const BenchTime until_;
  std::vector<One> all_;
  std::uint64_t steps_ = 0;
};

}  // namespace penstock
