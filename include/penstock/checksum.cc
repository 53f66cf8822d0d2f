#include "penstock/checksum.h"

#include <immintrin.h>
#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <cstring>
#include <limits>

#include "penstock/assert.h"
#include "penstock/polynomial.h"

namespace penstock {
namespace {

constexpr std::uint32_t kCrc32cPolynomial = 0x82f63b78;
constexpr std::uint32_t kCrc32Polynomial = 0xedb88320;
constexpr std::uint64_t kCrc64Polynomial = 0x9a6c9329ac4bc9b5;

struct Traits {
  ChecksumAlgorithm algorithm;
  std::string_view lower;
  std::string_view upper;
  std::size_t bytes;
};
constexpr std::array<Traits, 6> kTraits{{
    {ChecksumAlgorithm::none, "", "", 0},
    {ChecksumAlgorithm::crc32, "crc32", "CRC32", 4},
    {ChecksumAlgorithm::crc32c, "crc32c", "CRC32C", 4},
    {ChecksumAlgorithm::crc64nvme, "crc64nvme", "CRC64NVME", 8},
    {ChecksumAlgorithm::sha1, "sha1", "SHA1", 20},
    {ChecksumAlgorithm::sha256, "sha256", "SHA256", 32},
}};
const Traits& traits(ChecksumAlgorithm algorithm) {
  return kTraits[static_cast<std::size_t>(algorithm)];
}

std::string to_big_endian(std::uint64_t value, std::size_t bytes) {
  std::string raw(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    raw[bytes - 1 - i] = static_cast<char>(value >> (8 * i) & 0xff);
  }
  return raw;
}

std::uint64_t from_big_endian(std::string_view raw) {
  std::uint64_t value = 0;
  for (const char c : raw) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

// EVP_sha256() looks its implementation up at each use; a fetched one does not.
const EVP_MD* fetched(ChecksumAlgorithm algorithm) {
  static const EVP_MD* const sha1 = EVP_MD_fetch(nullptr, "SHA1", nullptr);
  static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm == ChecksumAlgorithm::sha1 ? sha1 : sha256;
}

// ISA-L's lengths are signed or small; one call takes a piece.
constexpr std::size_t kPieceMax = std::size_t{1} << 30;

// A call of ISA-L takes 14 ns at least; below this the processor's own instruction, 8 bytes at a
// time, is done before. Rows have a key of some 20 bytes and a version of four.
constexpr std::size_t kFewBytes = 256;

__attribute__((target("sse4.2"))) std::uint32_t crc32c_of_few(ConstBytes bytes,
                                                              std::uint32_t state) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t wide = state;
  for (; left >= sizeof(std::uint64_t); left -= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
    at += sizeof word;
  }
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; left > 0; --left) narrow = _mm_crc32_u8(narrow, std::to_integer<unsigned char>(*at++));
  return narrow;
}

}  // namespace

std::string_view to_string(ChecksumAlgorithm algorithm) { return traits(algorithm).lower; }
std::string_view s3_name(ChecksumAlgorithm algorithm) { return traits(algorithm).upper; }
std::size_t checksum_bytes(ChecksumAlgorithm algorithm) { return traits(algorithm).bytes; }

std::optional<ChecksumAlgorithm> parse_checksum_algorithm(std::string_view name) {
  const auto same = [](char lower, char any) {
    return lower == (any >= 'A' && any <= 'Z' ? static_cast<char>(any - 'A' + 'a') : any);
  };
  for (const ChecksumAlgorithm algorithm : kChecksumAlgorithms) {
    const std::string_view lower = to_string(algorithm);
    if (std::equal(lower.begin(), lower.end(), name.begin(), name.end(), same)) return algorithm;
  }
  return std::nullopt;
}

bool is_combinable(ChecksumAlgorithm algorithm) {
  return algorithm == ChecksumAlgorithm::crc32 || algorithm == ChecksumAlgorithm::crc32c ||
         algorithm == ChecksumAlgorithm::crc64nvme;
}

std::uint32_t crc32c(ConstBytes bytes, std::uint32_t crc) {
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  std::uint32_t state = ~crc;  // crc32_iscsi leaves both inversions to the caller
  if (bytes.size() < kFewBytes && has_instruction) return ~crc32c_of_few(bytes, state);
  while (!bytes.empty()) {
    const ConstBytes piece = bytes.first(std::min(bytes.size(), kPieceMax));
    // ISA-L takes a pointer to mutable bytes but only reads them.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

std::uint32_t crc32(ConstBytes bytes, std::uint32_t crc) {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint32_t combine_crc32c(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes) {
  return combine<kCrc32cPolynomial>(a, b, b_bytes);
}
std::uint32_t combine_crc32(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes) {
  return combine<kCrc32Polynomial>(a, b, b_bytes);
}
std::uint64_t combine_crc64nvme(std::uint64_t a, std::uint64_t b, std::uint64_t b_bytes) {
  return combine<kCrc64Polynomial>(a, b, b_bytes);
}

std::string combine_crc(ChecksumAlgorithm algorithm, std::string_view a, std::string_view b,
                        std::uint64_t b_bytes) {
  PENSTOCK_ASSERT(is_combinable(algorithm));
  PENSTOCK_ASSERT(a.size() == checksum_bytes(algorithm) && b.size() == a.size());
  const std::uint64_t left = from_big_endian(a);
  const std::uint64_t right = from_big_endian(b);
  if (algorithm == ChecksumAlgorithm::crc64nvme) {
    return to_big_endian(combine_crc64nvme(left, right, b_bytes), 8);
  }
  const auto left32 = static_cast<std::uint32_t>(left);
  const auto right32 = static_cast<std::uint32_t>(right);
  return to_big_endian(algorithm == ChecksumAlgorithm::crc32
                           ? combine_crc32(left32, right32, b_bytes)
                           : combine_crc32c(left32, right32, b_bytes),
                       4);
}

struct Checksummer::Digest {
  explicit Digest(const EVP_MD* md) { EVP_DigestInit_ex2(context, md, nullptr); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  ~Digest() { EVP_MD_CTX_free(context); }
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Checksummer::Checksummer(ChecksumAlgorithm algorithm) : algorithm_(algorithm) {
  if (algorithm == ChecksumAlgorithm::sha1 || algorithm == ChecksumAlgorithm::sha256) {
    digest_ = std::make_unique<Digest>(fetched(algorithm));
  }
}
Checksummer::Checksummer(Checksummer&&) noexcept = default;
Checksummer& Checksummer::operator=(Checksummer&&) noexcept = default;
Checksummer::~Checksummer() = default;

void Checksummer::update(ConstBytes bytes) {
  switch (algorithm_) {
    case ChecksumAlgorithm::none:
      return;
    case ChecksumAlgorithm::crc32:
      crc_ = crc32(bytes, static_cast<std::uint32_t>(crc_));
      return;
    case ChecksumAlgorithm::crc32c:
      crc_ = crc32c(bytes, static_cast<std::uint32_t>(crc_));
      return;
    case ChecksumAlgorithm::crc64nvme:
      crc_ = crc64nvme(bytes, crc_);
      return;
    case ChecksumAlgorithm::sha1:
    case ChecksumAlgorithm::sha256:
      EVP_DigestUpdate(digest_->context, bytes.data(), bytes.size());
      return;
  }
}

std::string Checksummer::raw() const {
  const std::size_t bytes = checksum_bytes(algorithm_);
  if (digest_ == nullptr) return to_big_endian(crc_, bytes);
  // Finishing ends a context; a copy keeps this one open for more.
  Digest finished(fetched(algorithm_));
  EVP_MD_CTX_copy_ex(finished.context, digest_->context);
  std::string raw(bytes, '\0');
  EVP_DigestFinal_ex(finished.context, reinterpret_cast<unsigned char*>(raw.data()), nullptr);
  return raw;
}

std::string checksum_of(ChecksumAlgorithm algorithm, ConstBytes bytes) {
  Checksummer checksummer(algorithm);
  checksummer.update(bytes);
  return checksummer.raw();
}

}  // namespace penstock
