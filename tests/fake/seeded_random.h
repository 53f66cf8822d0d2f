// Randomness that a seed repeats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "penstock/runtime.h"

namespace penstock {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> bytes) override {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine_());
  }
  // 0 … bound - 1.
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  bool chance(double probability) {
    return static_cast<double>(engine_() >> 11) * 0x1p-53 < probability;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace penstock
