// MD5 of several streams in lockstep: lane i of every vector register belongs to stream i.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "penstock/md5.h"

namespace penstock {

enum class Md5Kernel : std::uint8_t { scalar, avx2, avx512 };
// The fastest one of those up to `fastest` that this processor has.
Md5Kernel available_md5_kernel(Md5Kernel fastest = Md5Kernel::avx512);
// Streams that a kernel hashes side by side: 1, 8, 16.
std::size_t md5_lanes(Md5Kernel kernel);

struct Md5Lane {
  Md5Words* words = nullptr;
  const std::byte* blocks = nullptr;
};
// Hashes `block_count` whole blocks into each lane.
// Pre: 1 <= lanes.size() <= md5_lanes(kernel); the kernel is available; all `words` differ.
void md5_blocks_in_lanes(Md5Kernel kernel, std::span<const Md5Lane> lanes, std::size_t block_count);

}  // namespace penstock
