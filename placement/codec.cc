#include "placement/codec.h"

#include <galois.h>
#include <isa-l.h>
#include <jerasure.h>
#include <jerasure/reed_sol.h>

#include <boost/container/static_vector.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "penstock/assert.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr int kWordBits = 8;
constexpr std::size_t kSlotsMax = limits::kFragmentsPerStripeMax;
constexpr std::size_t kTableBytes = 32;         // ISA-L's expanded form of one coefficient
constexpr std::size_t kSliceBytes = 16 * 1024;  // what Jerasure multiplies fastest
constexpr std::size_t kJerasureAlign = 64;

// Galois-field tables of Jerasure are process-wide and must exist before threads use them.
void init_field_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    [[maybe_unused]] const int failed = galois_init_default_field(kWordBits);
    PENSTOCK_ASSERT(failed == 0);
  });
}

using Coefficients = boost::container::static_vector<unsigned char, kSlotsMax * kSlotsMax>;
using Pointers = std::array<unsigned char*, kSlotsMax>;

unsigned char* raw(const std::byte* bytes) {
  // Both libraries take sources without const and only read them.
  return reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes));
}

// out = coefficients (rows x sources) * sources, by ISA-L, column by column so that all columns of
// one step stay in the L2 cache.
void multiply_isal(std::span<const unsigned char> tables, std::span<const ConstBytes> sources,
                   std::span<const MutBytes> out) {
  const std::size_t length = out[0].size();
  for (std::size_t at = 0; at < length; at += limits::kColumnBytes) {
    const std::size_t step = std::min(limits::kColumnBytes, length - at);
    Pointers from{}, to{};
    for (std::size_t i = 0; i < sources.size(); ++i) from[i] = raw(sources[i].data() + at);
    for (std::size_t i = 0; i < out.size(); ++i) to[i] = raw(out[i].data() + at);
    ec_encode_data(static_cast<int>(step), static_cast<int>(sources.size()),
                   static_cast<int>(out.size()), const_cast<unsigned char*>(tables.data()),
                   from.data(), to.data());
  }
}

// out = coefficients * sources, or out ^= if `add`, by Jerasure. It aborts unless source and
// destination have one address modulo 16, and wants whole words: slices go through aligned memory.
void multiply_jerasure(std::span<const unsigned char> coefficients,
                       std::span<const ConstBytes> sources, std::span<const MutBytes> out,
                       bool add) {
  const std::size_t count = sources.size() + out.size();
  std::vector<char> memory(count * kSliceBytes + kJerasureAlign);
  void* begin = memory.data();
  std::size_t space = memory.size();
  char* slices = static_cast<char*>(std::align(kJerasureAlign, kSliceBytes, begin, space));
  std::array<char*, 2 * kSlotsMax> at_slice{};
  for (std::size_t i = 0; i < count; ++i) at_slice[i] = slices + i * kSliceBytes;
  char** to = at_slice.data() + sources.size();
  std::vector<int> matrix(coefficients.begin(), coefficients.end());
  const std::size_t length = out[0].size();
  for (std::size_t at = 0; at < length; at += kSliceBytes) {
    const std::size_t step = std::min(kSliceBytes, length - at);
    const std::size_t words = (step + 15) / 16 * 16;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      std::memset(at_slice[i] + step, 0, words - step);
      std::memcpy(at_slice[i], sources[i].data() + at, step);
    }
    jerasure_matrix_encode(static_cast<int>(sources.size()), static_cast<int>(out.size()),
                           kWordBits, matrix.data(), at_slice.data(), to, static_cast<int>(words));
    for (std::size_t row = 0; row < out.size(); ++row) {
      std::byte* target = out[row].data() + at;
      for (std::size_t i = 0; add && i < step; ++i) to[row][i] ^= static_cast<char>(target[i]);
      std::memcpy(target, to[row], step);
    }
  }
}

// Rows of the parity matrix: parity[j] = sum over i of row[j][i] * data[i].
Coefficients parity_rows(std::uint32_t k, std::uint32_t m) {
  if (m == 0) return {};
  if (k == 1) return Coefficients(m, 1);  // copies; also what the Vandermonde matrix says
  using Matrix = std::unique_ptr<int, decltype(&std::free)>;
  const Matrix matrix(
      reed_sol_vandermonde_coding_matrix(static_cast<int>(k), static_cast<int>(m), kWordBits),
      &std::free);
  PENSTOCK_ASSERT(matrix != nullptr);
  Coefficients rows;
  for (std::uint32_t i = 0; i < k * m; ++i) {
    rows.push_back(static_cast<unsigned char>(matrix.get()[i]));
  }
  return rows;
}

std::vector<unsigned char> isal_tables(std::size_t sources, std::size_t rows,
                                       Coefficients coefficients) {
  std::vector<unsigned char> tables(kTableBytes * sources * rows);
  ec_init_tables(static_cast<int>(sources), static_cast<int>(rows), coefficients.data(),
                 tables.data());
  return tables;
}

bool same_lengths(std::span<const ConstBytes> sources, std::span<const MutBytes> out) {
  const auto fits = [&](const auto& bytes) { return bytes.size() == out[0].size(); };
  return std::all_of(sources.begin(), sources.end(), fits) &&
         std::all_of(out.begin(), out.end(), fits);
}

}  // namespace

struct Codec::Tables {
  std::uint32_t k;
  std::uint32_t m;
  CodecEngine engine;
  Coefficients parity;                    // m rows of k
  std::vector<unsigned char> isal;        // the same, expanded
  std::vector<unsigned char> isal_first;  // its first column

  unsigned char coefficient(std::uint32_t unit, std::uint32_t column) const {
    if (unit < k) return unit == column ? 1 : 0;
    return parity[(unit - k) * k + column];
  }
  // What data unit `unit` counts in each of the m parity units.
  Coefficients column(std::uint32_t unit) const {
    Coefficients all;
    for (std::uint32_t j = 0; j < m; ++j) all.push_back(coefficient(k + j, unit));
    return all;
  }
};

Codec::Codec(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
Codec::~Codec() = default;
Codec::Codec(Codec&&) noexcept = default;
Codec& Codec::operator=(Codec&&) noexcept = default;
std::uint32_t Codec::k() const { return tables_->k; }
std::uint32_t Codec::m() const { return tables_->m; }

Result<Codec> Codec::make(std::uint32_t k, std::uint32_t m, CodecEngine engine) {
  if (k == 0) return fail(Errc::invalid, "codec: k = 0");
  if (std::uint64_t{k} + m > kSlotsMax) return fail(Errc::invalid, "codec: too many units");
  init_field_once();
  auto tables = std::make_unique<Tables>(Tables{k, m, engine, parity_rows(k, m), {}, {}});
  if (m > 0) {
    tables->isal = isal_tables(k, m, tables->parity);
    tables->isal_first = isal_tables(1, m, tables->column(0));
  }
  return Codec(std::move(tables));
}

void Codec::encode(std::span<const ConstBytes> data, std::span<const MutBytes> parity) const {
  PENSTOCK_ASSERT(data.size() == tables_->k && parity.size() == tables_->m);
  if (parity.empty() || parity[0].empty()) return;
  PENSTOCK_ASSERT(same_lengths(data, parity));
  if (tables_->engine == CodecEngine::isal) return multiply_isal(tables_->isal, data, parity);
  multiply_jerasure(tables_->parity, data, parity, false);
}

void Codec::encode_add(std::uint32_t unit, ConstBytes data,
                       std::span<const MutBytes> parity) const {
  PENSTOCK_ASSERT(unit < tables_->k && parity.size() == tables_->m);
  if (parity.empty() || data.empty()) return;
  PENSTOCK_ASSERT(same_lengths(std::span(&data, 1), parity));
  if (tables_->engine == CodecEngine::jerasure) {
    return multiply_jerasure(tables_->column(unit), std::span(&data, 1), parity, unit > 0);
  }
  if (unit == 0) return multiply_isal(tables_->isal_first, std::span(&data, 1), parity);
  for (std::size_t at = 0; at < data.size(); at += limits::kColumnBytes) {
    const std::size_t step = std::min(limits::kColumnBytes, data.size() - at);
    Pointers to{};
    for (std::size_t j = 0; j < parity.size(); ++j) to[j] = raw(parity[j].data() + at);
    ec_encode_data_update(static_cast<int>(step), static_cast<int>(tables_->k),
                          static_cast<int>(tables_->m), static_cast<int>(unit),
                          tables_->isal.data(), raw(data.data() + at), to.data());
  }
}

Result<> Codec::rebuild(std::span<const std::uint32_t> present, std::span<const ConstBytes> bytes,
                        std::span<const std::uint32_t> wanted,
                        std::span<const MutBytes> out) const {
  const std::uint32_t k = tables_->k;
  const std::uint32_t units = k + tables_->m;
  if (present.size() != k || bytes.size() != k || wanted.size() != out.size()) {
    return fail(Errc::invalid, "codec: a rebuild takes exactly k units");
  }
  std::array<bool, kSlotsMax> seen{};
  for (const std::uint32_t unit : present) {
    if (unit >= units || std::exchange(seen[unit], true)) {
      return fail(Errc::invalid, "codec: a unit is there twice or out of range");
    }
  }
  for (const std::uint32_t unit : wanted) {
    if (unit >= units) return fail(Errc::invalid, "codec: a wanted unit is out of range");
  }
  if (wanted.empty() || out[0].empty()) return {};
  PENSTOCK_ASSERT(same_lengths(bytes, out));
  // The k present rows of the generator, inverted, give the data; the row of a wanted unit times
  // that gives the unit from what is present.
  boost::container::static_vector<int, kSlotsMax * kSlotsMax> rows, inverse(k * k, 0);
  for (const std::uint32_t unit : present) {
    for (std::uint32_t c = 0; c < k; ++c) rows.push_back(tables_->coefficient(unit, c));
  }
  [[maybe_unused]] const int failed =
      jerasure_invert_matrix(rows.data(), inverse.data(), static_cast<int>(k), kWordBits);
  PENSTOCK_ASSERT(failed == 0 && "any k rows of the generator are independent");
  Coefficients coefficients;
  for (const std::uint32_t unit : wanted) {
    for (std::uint32_t c = 0; c < k; ++c) {
      int sum = 0;
      for (std::uint32_t i = 0; i < k; ++i) {
        sum ^= galois_single_multiply(tables_->coefficient(unit, i), inverse[i * k + c], kWordBits);
      }
      coefficients.push_back(static_cast<unsigned char>(sum));
    }
  }
  if (tables_->engine == CodecEngine::jerasure) {
    multiply_jerasure(coefficients, bytes, out, false);
  } else {
    multiply_isal(isal_tables(k, wanted.size(), coefficients), bytes, out);
  }
  return {};
}

struct CodecCache::State {
  std::mutex mutex;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<const Codec>> codecs;
};

CodecCache::CodecCache() : state_(std::make_unique<State>()) {}
CodecCache::~CodecCache() = default;

Result<std::shared_ptr<const Codec>> CodecCache::get(std::uint32_t k, std::uint32_t m) {
  std::lock_guard lock(state_->mutex);
  auto& codec = state_->codecs[{k, m}];
  if (codec == nullptr) {
    auto made = Codec::make(k, m);
    if (!made) {
      state_->codecs.erase({k, m});
      return std::move(made).error();
    }
    codec = std::make_shared<const Codec>(std::move(made).value());
  }
  return codec;
}

}  // namespace penstock
