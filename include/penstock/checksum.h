// The checksums of S3 objects: CRC-32C, CRC-32, CRC-64/NVME, SHA-1, SHA-256, and MD5 (md5.h).
//
// CRC values here are the finished ones (as published for "123456789"), not inner states: the CRC
// of an empty string is 0 and a finished value may be continued.
// Cost: CRCs about 0.05 CPU-s/GiB from memory, SHA about 0.6, MD5 about 1.4.
// Thread-safety: functions from any thread; objects belong to one thread at a time.
// Source: S3 User Guide, "Checking object integrity"; NVM Express NVM Command Set 5.2.1.3.4
// (CRC-64).
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/types.h"

namespace penstock {

// On disk, never renumber.
enum class ChecksumAlgorithm : std::uint8_t {
  none = 0,
  crc32 = 1,
  crc32c = 2,
  crc64nvme = 3,
  sha1 = 4,
  sha256 = 5,
};
// Composite: the checksum of the concatenated raw checksums of the parts. On disk, never renumber.
enum class ChecksumType : std::uint8_t { full_object = 0, composite = 1 };

inline constexpr std::array kChecksumAlgorithms{ChecksumAlgorithm::crc32, ChecksumAlgorithm::crc32c,
                                                ChecksumAlgorithm::crc64nvme,
                                                ChecksumAlgorithm::sha1, ChecksumAlgorithm::sha256};

// "crc32", "crc32c", "crc64nvme", "sha1", "sha256"; empty for none. The header is "x-amz-checksum-"
// and this.
std::string_view to_string(ChecksumAlgorithm algorithm);
// As S3 writes it in x-amz-checksum-algorithm and in XML: "CRC32" …; empty for none.
std::string_view s3_name(ChecksumAlgorithm algorithm);
// By name in any case; nullopt for one that is not served, "none" and "" included.
std::optional<ChecksumAlgorithm> parse_checksum_algorithm(std::string_view name);
// Length of the raw value: 4, 4, 8, 20, 32; 0 for none.
std::size_t checksum_bytes(ChecksumAlgorithm algorithm);
// The CRCs, whose value for a whole follows from those of its parts.
bool is_combinable(ChecksumAlgorithm algorithm);

// `crc` continues an earlier value: crc32c(b, crc32c(a)) == crc32c(ab).
std::uint32_t crc32c(ConstBytes bytes, std::uint32_t crc = 0);
std::uint32_t crc32(ConstBytes bytes, std::uint32_t crc = 0);
// `fastest` bounds the kernels that are tried (the processor may lack some); all give one value.
enum class Crc64Kernel : std::uint8_t { table, pclmul, vpclmul };
std::uint64_t crc64nvme(ConstBytes bytes, std::uint64_t crc = 0,
                        Crc64Kernel fastest = Crc64Kernel::vpclmul);

// crc(ab) from crc(a), crc(b) and the length of b. Cost: about 1 us, whatever the length.
std::uint32_t combine_crc32c(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes);
std::uint32_t combine_crc32(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes);
std::uint64_t combine_crc64nvme(std::uint64_t a, std::uint64_t b, std::uint64_t b_bytes);
// The same over raw values (big endian, as stored and as S3 encodes them).
// Pre: is_combinable(algorithm); both values have its length.
std::string combine_crc(ChecksumAlgorithm algorithm, std::string_view a, std::string_view b,
                        std::uint64_t b_bytes);

// One checksum of a stream of bytes.
class Checksummer {
 public:
  // `none` is allowed: it ignores what it is fed and its raw value is empty.
  explicit Checksummer(ChecksumAlgorithm algorithm = ChecksumAlgorithm::none);
  Checksummer(Checksummer&&) noexcept;
  Checksummer& operator=(Checksummer&&) noexcept;
  ~Checksummer();

  ChecksumAlgorithm algorithm() const { return algorithm_; }
  void update(ConstBytes bytes);
  // The raw value of all bytes so far, big endian for CRCs. May be called between updates.
  std::string raw() const;

 private:
  struct Digest;  // OpenSSL's context, for the SHAs
  ChecksumAlgorithm algorithm_ = ChecksumAlgorithm::none;
  std::uint64_t crc_ = 0;
  std::unique_ptr<Digest> digest_;
};

// The raw checksum of `bytes` in one call.
std::string checksum_of(ChecksumAlgorithm algorithm, ConstBytes bytes);

}  // namespace penstock
