// Arithmetic in GF(2)[x] modulo the polynomial of a reflected CRC: what shifting a CRC over zeros
// is.
//
// Values are reflected: the highest bit is x^0. `Polynomial` is reflected, too, without its leading
// term.
#pragma once
#include <array>
#include <cstdint>
#include <limits>

namespace penstock {

// a * b mod P.
template <auto Polynomial>
constexpr auto multiply(decltype(Polynomial) a, decltype(Polynomial) b) -> decltype(Polynomial) {
  using Word = decltype(Polynomial);
  Word product = 0;
  for (Word bit = Word{1} << (std::numeric_limits<Word>::digits - 1); bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? Polynomial : 0);  // b * x
  }
  return product;
}

// x^(2^n) mod P for n = 0 … 66, enough for the bits of any 64-bit count of bytes.
template <auto Polynomial>
constexpr auto make_squares() {
  using Word = decltype(Polynomial);
  std::array<Word, 67> squares{};
  squares[0] = Word{1} << (std::numeric_limits<Word>::digits - 2);
  for (std::size_t n = 1; n < squares.size(); ++n) {
    squares[n] = multiply<Polynomial>(squares[n - 1], squares[n - 1]);
  }
  return squares;
}
template <auto Polynomial>
inline constexpr auto kSquares = make_squares<Polynomial>();

// x^(exponent * 2^shift) mod P. Pre: shift <= 3.
template <auto Polynomial>
constexpr auto power_of_x(std::uint64_t exponent, unsigned shift = 0) {
  using Word = decltype(Polynomial);
  Word power = Word{1} << (std::numeric_limits<Word>::digits - 1);
  for (unsigned n = shift; exponent != 0; exponent >>= 1, ++n) {
    if ((exponent & 1) != 0) power = multiply<Polynomial>(kSquares<Polynomial>[n], power);
  }
  return power;
}

// CRC(ab) from CRC(a), CRC(b) and the length of b: a is moved over the bits of b; what initial and
// final inversions add to both cancels out.
template <auto Polynomial>
constexpr auto combine(decltype(Polynomial) a, decltype(Polynomial) b, std::uint64_t b_bytes) {
  constexpr unsigned kBitsPerByteLog2 = 3;
  return static_cast<decltype(Polynomial)>(
      multiply<Polynomial>(power_of_x<Polynomial>(b_bytes, kBitsPerByteLog2), a) ^ b);
}

}  // namespace penstock
