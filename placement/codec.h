// Systematic Reed-Solomon code over GF(2^8), polynomial 0x11d, matrix by Jerasure's
// reed_sol_vandermonde_coding_matrix (Plank, 2014). Two engines with one byte format: Jerasure is
// the reference, ISA-L multiplies.
// Shape: the k + m units of a stripe have one length; unit i < k is the data, unchanged.
// Column-wise: any sub-range of the units may be coded alone. Thread-safety: immutable once made.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "penstock/result.h"
#include "penstock/types.h"

namespace penstock {

enum class CodecEngine : std::uint8_t { isal, jerasure };

class Codec {
 public:
  // Errors: invalid - k == 0 or k + m > limits::kFragmentsPerStripeMax.
  static Result<Codec> make(std::uint32_t k, std::uint32_t m,
                            CodecEngine engine = CodecEngine::isal);
  ~Codec();
  Codec(Codec&&) noexcept;
  Codec& operator=(Codec&&) noexcept;
  std::uint32_t k() const;
  std::uint32_t m() const;

  // parity[j] = code of all data. All spans have one length.
  void encode(std::span<const ConstBytes> data, std::span<const MutBytes> parity) const;
  // Adds data unit `unit` into parity; unit 0 is the first, and replaces what was there. Lets a
  // stream be coded as it arrives, with memory for m units only. parity[j].size() == data.size().
  void encode_add(std::uint32_t unit, ConstBytes data, std::span<const MutBytes> parity) const;
  // Computes the units `wanted` from k others: `present[i]` is the number of the unit whose bytes
  // are `bytes[i]`, k of them, distinct. Pre: the bytes were verified; the code cannot tell a wrong
  // byte.
  // Errors: invalid - not exactly k present, a number twice or out of range.
  Result<> rebuild(std::span<const std::uint32_t> present, std::span<const ConstBytes> bytes,
                   std::span<const std::uint32_t> wanted, std::span<const MutBytes> out) const;

 private:
  struct Tables;
  explicit Codec(std::unique_ptr<Tables> tables);
  std::unique_ptr<Tables> tables_;
};

// Codecs by (k, m), made once. Thread-safety: any thread.
class CodecCache {
 public:
  CodecCache();
  ~CodecCache();
  // Errors: as Codec::make.
  Result<std::shared_ptr<const Codec>> get(std::uint32_t k, std::uint32_t m);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
