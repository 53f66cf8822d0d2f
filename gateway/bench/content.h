// What the objects of a data set hold: incompressible bytes that follow from the key and the
// offset, so that every reader can tell whether it got the right ones, and nothing is kept.
// One ring of nearly 64 MiB; each object begins at a place in it that its key says. Its length is a
// prime, so that a mixed up block of any power of two is other bytes.
// Thread-safety: const from any thread.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "penstock/types.h"

namespace penstock {

class Content {
 public:
  static constexpr std::size_t kRingBytes = (std::size_t{64} << 20) - 5;
  explicit Content(std::size_t ring_bytes = kRingBytes);

  // Where an object of this key begins in the ring.
  std::uint64_t start_of(std::string_view key) const;
  // The bytes at `position` (any number), as many as lie in one piece, at most `count_max`.
  ConstBytes at(std::uint64_t position, std::size_t count_max) const;
  // Whether `bytes` are those at `position`.
  bool matches(std::uint64_t position, ConstBytes bytes) const;

 private:
  std::vector<std::byte> ring_;
};

// A well mixed number of `value`: for plans that are the same in each run.
std::uint64_t mixed(std::uint64_t value);

}  // namespace penstock
