// Each step of MD5 depends on the one before, so a single stream leaves most of a core idle. Here
// the sixteen words of a block are transposed so that one register holds the same word of every
// stream; then the 64 steps run once for all. Source: RFC 1321, section 3.4.
#include "penstock/md5_lanes.h"

#include <immintrin.h>

#include <array>

#include "penstock/assert.h"

namespace penstock {
namespace {

constexpr std::size_t kWordsPerBlock = 16;
constexpr std::size_t kLanesMax = 16;

struct Step {
  std::uint32_t addend;
  std::uint8_t word;
  std::uint8_t rotation;
};

// floor(2^32 * |sin(i + 1)|), the word used and the rotation of each step.
constexpr std::array<std::uint32_t, 64> kAddends{
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

// The function of three bits of each round as its table: bit (b << 2 | c << 1 | d) of the constant.
constexpr int kTables[4] = {0xca, 0xe4, 0x96, 0x39};

constexpr Step step_of(std::size_t i) {
  constexpr std::uint8_t kRotations[4][4] = {
      {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  constexpr std::size_t kFactors[4] = {1, 5, 3, 7};
  constexpr std::size_t kOffsets[4] = {0, 1, 5, 0};
  const std::size_t round = i / 16;
  const auto word = static_cast<std::uint8_t>((kFactors[round] * i + kOffsets[round]) % 16);
  return {kAddends[i], word, kRotations[round][i % 4]};
}

// What the kernels share: the 64 steps over registers of any width. `Vector` has add, rotate<n>,
// choose<round>, load.
#define PENSTOCK_MD5_STEP(i, a, b, c, d)                                                      \
  {                                                                                           \
    constexpr Step kStep = step_of(i);                                                        \
    a = add(add(a, mix<(i) / 16>(b, c, d)), add(words[kStep.word], broadcast(kStep.addend))); \
    a = add(rotate<kStep.rotation>(a), b);                                                    \
  }
#define PENSTOCK_MD5_4_STEPS(i)          \
  PENSTOCK_MD5_STEP((i), a, b, c, d)     \
  PENSTOCK_MD5_STEP((i) + 1, d, a, b, c) \
  PENSTOCK_MD5_STEP((i) + 2, c, d, a, b) \
  PENSTOCK_MD5_STEP((i) + 3, b, c, d, a)
#define PENSTOCK_MD5_16_STEPS(i) \
  PENSTOCK_MD5_4_STEPS(i)        \
  PENSTOCK_MD5_4_STEPS((i) + 4)  \
  PENSTOCK_MD5_4_STEPS((i) + 8)  \
  PENSTOCK_MD5_4_STEPS((i) + 12)

// The kernel of a namespace that has Vector, load, store and load_words as well.
#define PENSTOCK_MD5_HASH(features)                                                        \
  __attribute__((target(features))) void hash(std::uint32_t(&state)[4][kLanesMax],         \
                                              const std::byte* const blocks[kLanes],       \
                                              std::size_t block_count) {                   \
    Vector a = load(state[0]), b = load(state[1]), c = load(state[2]), d = load(state[3]); \
    for (std::size_t block = 0; block < block_count; ++block) {                            \
      Vector words[kWordsPerBlock];                                                        \
      load_words(blocks, block* kMd5BlockBytes, words);                                    \
      const Vector before[4] = {a, b, c, d};                                               \
      PENSTOCK_MD5_16_STEPS(0)                                                             \
      PENSTOCK_MD5_16_STEPS(16)                                                            \
      PENSTOCK_MD5_16_STEPS(32)                                                            \
      PENSTOCK_MD5_16_STEPS(48)                                                            \
      a = add(a, before[0]);                                                               \
      b = add(b, before[1]);                                                               \
      c = add(c, before[2]);                                                               \
      d = add(d, before[3]);                                                               \
    }                                                                                      \
    store(state[0], a);                                                                    \
    store(state[1], b);                                                                    \
    store(state[2], c);                                                                    \
    store(state[3], d);                                                                    \
  }

#define PENSTOCK_AVX2 __attribute__((target("avx2"), always_inline)) static inline
#define PENSTOCK_AVX512 __attribute__((target("avx512f"), always_inline)) static inline
#define PENSTOCK_AVX512VL __attribute__((target("avx512f,avx512vl"), always_inline)) static inline

namespace avx2 {

constexpr std::size_t kLanes = 8;
using Vector = __m256i;

PENSTOCK_AVX2 Vector load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
PENSTOCK_AVX2 void store(void* to, Vector value) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}
PENSTOCK_AVX2 Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
PENSTOCK_AVX2 Vector broadcast(std::uint32_t value) {
  return _mm256_set1_epi32(static_cast<int>(value));
}
template <int Bits>
PENSTOCK_AVX2 Vector rotate(Vector a) {
  return _mm256_or_si256(_mm256_slli_epi32(a, Bits), _mm256_srli_epi32(a, 32 - Bits));
}
template <int Round>
PENSTOCK_AVX2 Vector mix(Vector b, Vector c, Vector d) {
  if constexpr (Round == 0) {
    return _mm256_xor_si256(d, _mm256_and_si256(b, _mm256_xor_si256(c, d)));
  } else if constexpr (Round == 1) {
    return _mm256_xor_si256(c, _mm256_and_si256(d, _mm256_xor_si256(b, c)));
  } else if constexpr (Round == 2) {
    return _mm256_xor_si256(_mm256_xor_si256(b, c), d);
  } else {
    const Vector not_d = _mm256_xor_si256(d, _mm256_set1_epi32(-1));
    return _mm256_xor_si256(c, _mm256_or_si256(b, not_d));
  }
}

// Rows are eight words of one stream each; columns are wanted.
PENSTOCK_AVX2 void transpose(Vector rows[8], Vector columns[8]) {
  Vector pairs[8];
  for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  Vector quads[8];
  for (int i = 0; i < 2; ++i) {
    quads[4 * i] = _mm256_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
    quads[4 * i + 1] = _mm256_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
    quads[4 * i + 2] = _mm256_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    quads[4 * i + 3] = _mm256_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    columns[i] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20);
    columns[i + 4] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31);
  }
}

PENSTOCK_AVX2 void load_words(const std::byte* const blocks[kLanes], std::size_t offset,
                              Vector words[kWordsPerBlock]) {
  for (std::size_t half = 0; half < 2; ++half) {
    Vector rows[8];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      rows[lane] = load(blocks[lane] + offset + 32 * half);
    }
    transpose(rows, words + 8 * half);
  }
}

PENSTOCK_MD5_HASH("avx2")

}  // namespace avx2

namespace avx512 {

constexpr std::size_t kLanes = 16;
using Vector = __m512i;

PENSTOCK_AVX512 Vector load(const void* from) { return _mm512_loadu_si512(from); }
PENSTOCK_AVX512 void store(void* to, Vector value) { _mm512_storeu_si512(to, value); }
PENSTOCK_AVX512 Vector add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
PENSTOCK_AVX512 Vector broadcast(std::uint32_t value) {
  return _mm512_set1_epi32(static_cast<int>(value));
}
template <int Bits>
PENSTOCK_AVX512 Vector rotate(Vector a) {
  return _mm512_rol_epi32(a, Bits);
}
template <int Round>
PENSTOCK_AVX512 Vector mix(Vector b, Vector c, Vector d) {
  constexpr int kTable = kTables[Round];  // an immediate, also where nothing is optimized
  return _mm512_ternarylogic_epi32(b, c, d, kTable);
}

// Sixteen rows of sixteen words: first within 128-bit quarters, then the quarters among the rows.
PENSTOCK_AVX512 void load_words(const std::byte* const blocks[kLanes], std::size_t offset,
                                Vector words[kWordsPerBlock]) {
  Vector quads[16];
  for (std::size_t i = 0; i < 16; i += 4) {
    Vector rows[4];
    for (std::size_t j = 0; j < 4; ++j) rows[j] = _mm512_loadu_si512(blocks[i + j] + offset);
    const Vector low01 = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const Vector high01 = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const Vector low23 = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const Vector high23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
    quads[i] = _mm512_unpacklo_epi64(low01, low23);
    quads[i + 1] = _mm512_unpackhi_epi64(low01, low23);
    quads[i + 2] = _mm512_unpacklo_epi64(high01, high23);
    quads[i + 3] = _mm512_unpackhi_epi64(high01, high23);
  }
  for (std::size_t j = 0; j < 4; ++j) {
    const Vector low_even = _mm512_shuffle_i32x4(quads[j], quads[4 + j], 0x88);
    const Vector low_odd = _mm512_shuffle_i32x4(quads[j], quads[4 + j], 0xdd);
    const Vector high_even = _mm512_shuffle_i32x4(quads[8 + j], quads[12 + j], 0x88);
    const Vector high_odd = _mm512_shuffle_i32x4(quads[8 + j], quads[12 + j], 0xdd);
    words[j] = _mm512_shuffle_i32x4(low_even, high_even, 0x88);
    words[4 + j] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    words[8 + j] = _mm512_shuffle_i32x4(low_even, high_even, 0xdd);
    words[12 + j] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd);
  }
}

PENSTOCK_MD5_HASH("avx512f")

}  // namespace avx512

// What AVX-512 has for a rotation and for three operands, in registers of half the width. For eight
// streams that is faster where a processor takes two turns for a whole register.
namespace avx512_half {

using avx2::add, avx2::broadcast, avx2::kLanes, avx2::load, avx2::load_words, avx2::store,
    avx2::Vector;

template <int Bits>
PENSTOCK_AVX512VL Vector rotate(Vector a) {
  return _mm256_rol_epi32(a, Bits);
}
template <int Round>
PENSTOCK_AVX512VL Vector mix(Vector b, Vector c, Vector d) {
  constexpr int kTable = kTables[Round];
  return _mm256_ternarylogic_epi32(b, c, d, kTable);
}

PENSTOCK_MD5_HASH("avx512f,avx512vl")

}  // namespace avx512_half

// The same for four streams.
namespace avx512_quarter {

constexpr std::size_t kLanes = 4;
using Vector = __m128i;

PENSTOCK_AVX512VL Vector load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
PENSTOCK_AVX512VL void store(void* to, Vector value) {
  _mm_storeu_si128(static_cast<__m128i*>(to), value);
}
PENSTOCK_AVX512VL Vector add(Vector a, Vector b) { return _mm_add_epi32(a, b); }
PENSTOCK_AVX512VL Vector broadcast(std::uint32_t value) {
  return _mm_set1_epi32(static_cast<int>(value));
}
template <int Bits>
PENSTOCK_AVX512VL Vector rotate(Vector a) {
  return _mm_rol_epi32(a, Bits);
}
template <int Round>
PENSTOCK_AVX512VL Vector mix(Vector b, Vector c, Vector d) {
  constexpr int kTable = kTables[Round];
  return _mm_ternarylogic_epi32(b, c, d, kTable);
}

PENSTOCK_AVX512VL void load_words(const std::byte* const blocks[kLanes], std::size_t offset,
                                  Vector words[kWordsPerBlock]) {
  for (std::size_t i = 0; i < kWordsPerBlock; i += 4) {
    Vector rows[4];
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      rows[lane] = load(blocks[lane] + offset + 4 * i);
    const Vector low01 = _mm_unpacklo_epi32(rows[0], rows[1]);
    const Vector high01 = _mm_unpackhi_epi32(rows[0], rows[1]);
    const Vector low23 = _mm_unpacklo_epi32(rows[2], rows[3]);
    const Vector high23 = _mm_unpackhi_epi32(rows[2], rows[3]);
    words[i] = _mm_unpacklo_epi64(low01, low23);
    words[i + 1] = _mm_unpackhi_epi64(low01, low23);
    words[i + 2] = _mm_unpacklo_epi64(high01, high23);
    words[i + 3] = _mm_unpackhi_epi64(high01, high23);
  }
}

PENSTOCK_MD5_HASH("avx512f,avx512vl")

}  // namespace avx512_quarter

using Hash = void (*)(std::uint32_t (&)[4][kLanesMax], const std::byte* const*, std::size_t);
struct Width {
  Hash hash;
  std::size_t lanes;
};

// The narrowest that holds them all: idle lanes cost as much as busy ones.
Width width_for(Md5Kernel kernel, std::size_t streams) {
  static const bool has_narrow = __builtin_cpu_supports("avx512vl");
  if (kernel == Md5Kernel::avx2) return {avx2::hash, avx2::kLanes};
  if (has_narrow && streams <= avx512_quarter::kLanes) {
    return {avx512_quarter::hash, avx512_quarter::kLanes};
  }
  if (has_narrow && streams <= avx512_half::kLanes) return {avx512_half::hash, avx512_half::kLanes};
  return {avx512::hash, avx512::kLanes};
}

}  // namespace

Md5Kernel available_md5_kernel(Md5Kernel fastest) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  static const bool has_avx512 = __builtin_cpu_supports("avx512f");
  if (fastest >= Md5Kernel::avx512 && has_avx512) return Md5Kernel::avx512;
  if (fastest >= Md5Kernel::avx2 && has_avx2) return Md5Kernel::avx2;
  return Md5Kernel::scalar;
}

std::size_t md5_lanes(Md5Kernel kernel) {
  constexpr std::size_t kLanes[] = {1, avx2::kLanes, avx512::kLanes};
  return kLanes[static_cast<std::size_t>(kernel)];
}

void md5_blocks_in_lanes(Md5Kernel kernel, std::span<const Md5Lane> lanes,
                         std::size_t block_count) {
  PENSTOCK_ASSERT(!lanes.empty() && lanes.size() <= md5_lanes(kernel));
  if (lanes.size() == 1) {
    md5_blocks(*lanes[0].words, ConstBytes(lanes[0].blocks, block_count * kMd5BlockBytes));
    return;
  }
  std::uint32_t state[4][kLanesMax] = {};
  const std::byte* blocks[kLanesMax];
  const Width width = width_for(kernel, lanes.size());
  for (std::size_t lane = 0; lane < width.lanes; ++lane) {
    // Idle lanes hash what the first one hashes, and nobody looks at the outcome.
    const Md5Lane& source = lane < lanes.size() ? lanes[lane] : lanes[0];
    blocks[lane] = source.blocks;
    for (std::size_t i = 0; i < 4; ++i) state[i][lane] = (*source.words)[i];
  }
  width.hash(state, blocks, block_count);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (std::size_t i = 0; i < 4; ++i) (*lanes[lane].words)[i] = state[i][lane];
  }
}

}  // namespace penstock
