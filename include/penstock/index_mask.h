// A set of small numbers: which replicas of a group, which slots or units of a blob. A value.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "penstock/assert.h"

namespace penstock {

class IndexMask {
 public:
  static constexpr std::size_t kMax = 32;  // all numbers are below it

  constexpr IndexMask() = default;
  // `index` alone.
  static constexpr IndexMask of(std::size_t index) {
    IndexMask mask;
    mask.add(index);
    return mask;
  }
  // 0 … count - 1. Pre: count <= kMax.
  static constexpr IndexMask below(std::size_t count) {
    IndexMask mask;
    PENSTOCK_ASSERT(count <= kMax);
    mask.bits_ = static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1);
    return mask;
  }

  // False for numbers that no set can hold.
  constexpr bool has(std::size_t index) const { return index < kMax && (bits_ >> index & 1) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::size_t count() const { return static_cast<std::size_t>(std::popcount(bits_)); }
  // The smallest. Pre: not empty.
  constexpr std::size_t first() const { return static_cast<std::size_t>(std::countr_zero(bits_)); }

  // Pre, of both: index < kMax.
  constexpr void add(std::size_t index) {
    PENSTOCK_ASSERT(index < kMax);
    bits_ |= std::uint32_t{1} << index;
  }
  constexpr void remove(std::size_t index) {
    PENSTOCK_ASSERT(index < kMax);
    bits_ &= ~(std::uint32_t{1} << index);
  }

  constexpr IndexMask& operator|=(IndexMask other) {
    bits_ |= other.bits_;
    return *this;
  }
  constexpr IndexMask& operator&=(IndexMask other) {
    bits_ &= other.bits_;
    return *this;
  }
  // Without those of `other`.
  constexpr IndexMask& operator-=(IndexMask other) {
    bits_ &= ~other.bits_;
    return *this;
  }
  friend constexpr IndexMask operator|(IndexMask a, IndexMask b) { return a |= b; }
  friend constexpr IndexMask operator&(IndexMask a, IndexMask b) { return a &= b; }
  friend constexpr IndexMask operator-(IndexMask a, IndexMask b) { return a -= b; }
  friend constexpr bool operator==(IndexMask, IndexMask) = default;

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace penstock
