// CRC-64/NVME: reflected, polynomial 0xad93d23594c93659, initial and final value all ones.
//
// The bytes are a polynomial over GF(2) of which the CRC is the remainder. Folding replaces the
// highest 128 bits A of it by A * x^D mod P, D bits further down, with two carry-less
// multiplications, so that four or eight accumulators run side by side. What is left, 16 bytes,
// goes through the table. Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ", Intel 2009.
#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>

#include "penstock/checksum.h"
#include "penstock/polynomial.h"

namespace penstock {
namespace {

constexpr std::uint64_t kPolynomial = 0x9a6c9329ac4bc9b5;  // reflected
static_assert(std::endian::native == std::endian::little);

// slice-by-8: table[n][b] is byte b followed by n zero bytes.
constexpr auto make_tables() {
  std::array<std::array<std::uint64_t, 256>, 8> tables{};
  for (std::uint64_t b = 0; b < 256; ++b) {
    std::uint64_t value = b;
    for (int i = 0; i < 8; ++i) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
    tables[0][b] = value;
  }
  for (std::size_t n = 1; n < 8; ++n) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint64_t before = tables[n - 1][b];
      tables[n][b] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = make_tables();

// All kernels work on the inner state, without the inversions.
std::uint64_t update_by_table(std::uint64_t state, const std::byte* data, std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    word ^= state;
    state = 0;
    for (std::size_t n = 0; n < 8; ++n) state ^= kTables[7 - n][word >> (8 * n) & 0xff];
  }
  for (; size > 0; ++data, --size) {
    state = state >> 8 ^ kTables[0][(state ^ std::to_integer<std::uint64_t>(*data)) & 0xff];
  }
  return state;
}

// Multipliers that move 128 bits down by `Bits`. The product of two reflected words lies one bit
// off, hence the -1.
template <std::uint64_t Bits>
struct FoldBy {
  static constexpr auto kLow = power_of_x<kPolynomial>(Bits + 63);
  static constexpr auto kHigh = power_of_x<kPolynomial>(Bits - 1);
};

template <std::uint64_t Bits>
__attribute__((target("pclmul,sse4.1"), always_inline)) inline __m128i fold128(__m128i value) {
  const __m128i by = _mm_set_epi64x(static_cast<long long>(FoldBy<Bits>::kHigh),
                                    static_cast<long long>(FoldBy<Bits>::kLow));
  return _mm_xor_si128(_mm_clmulepi64_si128(value, by, 0x00),
                       _mm_clmulepi64_si128(value, by, 0x11));
}

__attribute__((target("pclmul,sse4.1"), always_inline)) inline __m128i load128(
    const std::byte* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

constexpr std::size_t kPclmulStep = 128;
// Pre: size >= kPclmulStep.
__attribute__((target("pclmul,sse4.1"))) std::uint64_t update_by_pclmul(std::uint64_t state,
                                                                        const std::byte* data,
                                                                        std::size_t size) {
  __m128i lanes[8];
  for (std::size_t i = 0; i < 8; ++i) lanes[i] = load128(data + 16 * i);
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi64_si128(static_cast<long long>(state)));
  data += kPclmulStep;
  size -= kPclmulStep;
  for (; size >= kPclmulStep; data += kPclmulStep, size -= kPclmulStep) {
    for (std::size_t i = 0; i < 8; ++i) {
      lanes[i] = _mm_xor_si128(fold128<8 * kPclmulStep>(lanes[i]), load128(data + 16 * i));
    }
  }
  for (std::size_t i = 1; i < 8; ++i)
    lanes[i] = _mm_xor_si128(fold128<128>(lanes[i - 1]), lanes[i]);
  std::byte rest[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), lanes[7]);
  return update_by_table(update_by_table(0, rest, sizeof(rest)), data, size);
}

#define PENSTOCK_VPCLMUL "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul"
constexpr std::size_t kVpclmulStep = 256;
// Pre: size >= kVpclmulStep.
__attribute__((target(PENSTOCK_VPCLMUL))) std::uint64_t update_by_vpclmul(std::uint64_t state,
                                                                          const std::byte* data,
                                                                          std::size_t size) {
  using Fold = FoldBy<8 * kVpclmulStep>;
  const auto high = static_cast<long long>(Fold::kHigh);
  const auto low = static_cast<long long>(Fold::kLow);
  const __m512i by = _mm512_set_epi64(high, low, high, low, high, low, high, low);
  __m512i lanes[4];
  for (std::size_t i = 0; i < 4; ++i) lanes[i] = _mm512_loadu_si512(data + 64 * i);
  lanes[0] = _mm512_xor_si512(
      lanes[0], _mm512_zextsi128_si512(_mm_cvtsi64_si128(static_cast<long long>(state))));
  data += kVpclmulStep;
  size -= kVpclmulStep;
  constexpr int kXorOfThree = 0x96;
  for (; size >= kVpclmulStep; data += kVpclmulStep, size -= kVpclmulStep) {
    for (std::size_t i = 0; i < 4; ++i) {
      lanes[i] = _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes[i], by, 0x00),
                                           _mm512_clmulepi64_epi128(lanes[i], by, 0x11),
                                           _mm512_loadu_si512(data + 64 * i), kXorOfThree);
    }
  }
  // The four lanes in order are 256 bytes with the same remainder as all before them.
  std::byte rest[kVpclmulStep];
  for (std::size_t i = 0; i < 4; ++i) _mm512_storeu_si512(rest + 64 * i, lanes[i]);
  return update_by_table(update_by_pclmul(0, rest, sizeof(rest)), data, size);
}

bool have_pclmul() {
  static const bool have = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return have;
}

bool have_vpclmul() {
  static const bool have =
      have_pclmul() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
  return have;
}

}  // namespace

std::uint64_t crc64nvme(ConstBytes bytes, std::uint64_t crc, Crc64Kernel fastest) {
  std::uint64_t state = ~crc;
  if (fastest >= Crc64Kernel::vpclmul && bytes.size() >= kVpclmulStep && have_vpclmul()) {
    state = update_by_vpclmul(state, bytes.data(), bytes.size());
  } else if (fastest >= Crc64Kernel::pclmul && bytes.size() >= kPclmulStep && have_pclmul()) {
    state = update_by_pclmul(state, bytes.data(), bytes.size());
  } else {
    state = update_by_table(state, bytes.data(), bytes.size());
  }
  return ~state;
}

}  // namespace penstock
