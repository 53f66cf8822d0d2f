// MD5 (RFC 1321) as a stream whose state other code can advance: md5_lanes.h hashes many streams at
// once.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "penstock/types.h"

namespace penstock {

using Md5Digest = std::array<std::uint8_t, 16>;
inline constexpr std::size_t kMd5BlockBytes = 64;

// The four chaining words.
using Md5Words = std::array<std::uint32_t, 4>;
// Hashes whole blocks. Pre: blocks.size() is a multiple of kMd5BlockBytes.
void md5_blocks(Md5Words& words, ConstBytes blocks);

// Thread-safety: one thread at a time.
class Md5 {
 public:
  void update(ConstBytes bytes);
  // Of all bytes so far; may be called between updates.
  Md5Digest digest() const;

  // What remains of `bytes` when an open block was filled from its front; whole blocks of it may be
  // hashed into words() by md5_lanes and then be told by skip(); the rest goes to update().
  ConstBytes fill_block(ConstBytes bytes);
  Md5Words& words() { return words_; }
  void skip(std::size_t hashed_bytes) { total_bytes_ += hashed_bytes; }

 private:
  Md5Words words_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::uint64_t total_bytes_ = 0;
  std::array<std::byte, kMd5BlockBytes> open_block_{};  // holds total_bytes_ % 64 bytes
};

Md5Digest md5(ConstBytes bytes);
std::string md5_hex(const Md5Digest& md5);  // 32 lower case digits

}  // namespace penstock
