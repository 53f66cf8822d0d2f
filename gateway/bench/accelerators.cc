#include "gateway/bench/accelerators.h"

#include <algorithm>
#include <array>

#include "penstock/assert.h"

namespace penstock {
namespace {

constexpr Duration kPoll{1'000};
constexpr std::array kShapes{
    TrainingShape{"unet3d", 7, Duration(323'000), 4, 0.9},
    TrainingShape{"resnet50", 400, Duration(224'000), 8, 0.9},
    TrainingShape{"retinanet", 24, Duration(47'550), 8, 0.85},
    TrainingShape{"cosmoflow", 1, Duration(3'500), 4, 0.7},
};

}  // namespace

TrainingShape training_shape(std::string_view name) {
  const auto* found = std::find_if(kShapes.begin(), kShapes.end(),
                                   [&](const TrainingShape& shape) { return shape.name == name; });
  PENSTOCK_ASSERT(found != kShapes.end());
  return *found;
}

Accelerators::Accelerators(TrainingShape shape, std::uint32_t count, BenchTime from,
                           BenchTime until)
    : shape_(shape), from_(from), until_(until), all_(count) {}

Duration Accelerators::counted(BenchTime begin, BenchTime end) const {
  return std::max(std::min(end, until_) - std::max(begin, from_), Duration{});
}

// A step begins when the accelerator is free and its batch is complete, whenever one looks.
void Accelerators::advance(One& one, BenchTime now) {
  while (!one.complete.empty() && one.busy_until <= now) {
    const BenchTime begin = std::max(one.busy_until, one.complete.front());
    one.complete.pop_front();
    one.busy_until = begin + shape_.compute;
    one.computed += counted(begin, one.busy_until);
    ++steps_;
  }
}

bool Accelerators::begin_sample(std::uint32_t accelerator, BenchTime now) {
  One& one = all_[accelerator];
  advance(one, now);
  const auto held =
      static_cast<std::uint32_t>(one.complete.size()) * shape_.batch + one.come + one.under_way;
  // A batch of one sample must not keep the other readers waiting.
  if (held >= kAhead * std::max(shape_.batch, shape_.readers)) return false;
  ++one.under_way;
  return true;
}

BenchTime Accelerators::ask_again(std::uint32_t accelerator, BenchTime now) const {
  const One& one = all_[accelerator];
  return !one.complete.empty() && one.busy_until > now ? one.busy_until : now + kPoll;
}

void Accelerators::sample_came(std::uint32_t accelerator, BenchTime now, bool good) {
  One& one = all_[accelerator];
  --one.under_way;
  if (good && ++one.come == shape_.batch) {
    one.come = 0;
    one.complete.push_back(now);
  }
  advance(one, now);
}

double Accelerators::utilisation(BenchTime now) {
  const Duration window = counted(from_, now);
  if (window == Duration{} || all_.empty()) return 0;
  Duration computed{};
  for (One& one : all_) {
    advance(one, now);
    computed += one.computed;
    computed -= counted(std::max(now, from_), one.busy_until);  // of a step that has not ended
  }
  return static_cast<double>(computed.count()) /
         (static_cast<double>(window.count()) * static_cast<double>(all_.size()));
}

}  // namespace penstock
