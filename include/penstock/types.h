// The vocabulary: ids, ballots, times and byte views that every room shares. Values; no behaviour
// beyond comparison.
#pragma once
#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/deadline.h"

namespace penstock {

using ConstBytes = std::span<const std::byte>;
using MutBytes = std::span<std::byte>;
inline ConstBytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// Immutable bytes that several calls share, e.g. one encoded record sent to R volumes.
using SharedBytes = std::shared_ptr<const std::string>;

// Distinct types for numbers that must not be swapped.
template <class Tag, class Number>
struct Strong {
  Number value{};
  auto operator<=>(const Strong&) const = default;
};
using VolumeId =
    Strong<struct VolumeIdTag, std::uint64_t>;  // random; a new identity per format (R13); 0 = none
using BucketId =
    Strong<struct BucketIdTag, std::uint64_t>;  // random, never reused; 0 = the system bucket
using BucketNumber =
    Strong<struct BucketNumberTag, std::uint64_t>;  // grows with each state change of one bucket id
using GroupId = Strong<struct GroupIdTag, std::uint32_t>;
using Epoch =
    Strong<struct EpochTag, std::uint64_t>;  // version of a group's membership, or of the map
using Generation =
    Strong<struct GenerationTag, std::uint64_t>;  // random per placement of a fragment

// 128 random bits.
template <class Tag>
struct Random128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Random128&) const = default;
  bool is_zero() const { return high == 0 && low == 0; }
};
using OpId = Random128<struct OpIdTag>;        // one per client-visible update, the same in all its
                                               // attempts; zero = absent
using WriteId = Random128<struct WriteIdTag>;  // one per blob, never overwritten
using ClusterId = Random128<struct ClusterIdTag>;

// What makes rounds comparable: a counter in microseconds, then who, then which of its operations.
// Zero = nothing accepted.
struct Ballot {
  std::uint64_t counter = 0;
  std::uint64_t process = 0;  // random per process start
  std::uint64_t operation = 0;
  auto operator<=>(const Ballot&) const = default;
  bool is_zero() const { return counter == 0 && process == 0 && operation == 0; }
};

// A fragment is what the volume of one slot keeps of a blob. The write-id alone proves nothing: a
// repaired slot has a new generation.
struct FragmentId {
  WriteId write_id;
  std::uint8_t slot = 0;
  Generation generation;
  auto operator<=>(const FragmentId&) const = default;
};

inline std::uint64_t mix_hash(
    std::uint64_t x) {  // finalizer of splitmix64: the ids are random, this only folds them
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace penstock

template <class Tag, class Number>
struct std::hash<penstock::Strong<Tag, Number>> {
  std::size_t operator()(const penstock::Strong<Tag, Number>& id) const noexcept {
    return static_cast<std::size_t>(penstock::mix_hash(id.value));
  }
};
template <class Tag>
struct std::hash<penstock::Random128<Tag>> {
  std::size_t operator()(const penstock::Random128<Tag>& id) const noexcept {
    return static_cast<std::size_t>(penstock::mix_hash(id.high ^ (id.low * 0x9e3779b97f4a7c15ull)));
  }
};
template <>
struct std::hash<penstock::FragmentId> {
  std::size_t operator()(const penstock::FragmentId& id) const noexcept {
    return std::hash<penstock::WriteId>{}(id.write_id) ^
           static_cast<std::size_t>(id.slot * 0x9e3779b97f4a7c15ull) ^
           static_cast<std::size_t>(penstock::mix_hash(id.generation.value));
  }
};
