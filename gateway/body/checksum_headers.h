// x-amz-checksum-*: how S3 writes checksums in headers and XML. Pure functions.
// Source: S3 User Guide, "Checking object integrity".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/s3/request.h"
#include "gateway/s3/s3_xml.h"
#include "server/records/object_record.h"

namespace penstock {

std::string_view to_string(ChecksumType type);  // "FULL_OBJECT", "COMPOSITE"
std::optional<ChecksumType> parse_checksum_type(std::string_view text);  // in any case

// Base64, and "-N" behind a composite one: clients tell by it that the bytes cannot be checked with
// it.
std::string checksum_text(const StoredChecksum& checksum, std::uint32_t part_count);
// x-amz-checksum-<algorithm> and x-amz-checksum-type.
void set_checksum(S3Response& response, const StoredChecksum& checksum, std::uint32_t part_count);
// <ChecksumCRC32> …, without the type.
void write_checksum(XmlWriter& xml, const StoredChecksum& checksum, std::uint32_t part_count);

// The algorithm that a request with a body names, in a header or for its trailer; none if it names
// none.
ChecksumAlgorithm named_checksum(const S3Request& request);
// What a PUT or a part names, by value, trailer or x-amz-checksum-algorithm alone; none if it
// leaves the choice to the store, which takes kChecksumByDefault.
// Errors: InvalidRequest - an algorithm that is not served, or two.
S3Result<ChecksumAlgorithm> body_algorithm(const S3Request& request);
inline constexpr ChecksumAlgorithm kChecksumByDefault = ChecksumAlgorithm::crc64nvme;
// The first of the two that is one.
constexpr ChecksumAlgorithm first_named(ChecksumAlgorithm named, ChecksumAlgorithm otherwise) {
  return named == ChecksumAlgorithm::none ? otherwise : named;
}
// What the body's reader verified; algorithm none if it computed none.
StoredChecksum body_checksum(const BodyReader& body);
// x-amz-checksum-mode: ENABLED.
bool wants_checksum(const S3Request& request);
// The checksum of the whole object that a Complete names in a header; algorithm none if there is
// none.
// Errors: BadDigest - it cannot be the checksum of anything; InvalidRequest - more than one, or of
// an algorithm that is not served.
struct WholeChecksum {
  StoredChecksum checksum;
  std::optional<std::uint32_t> part_count;  // the "-N" of a composite one
};
S3Result<WholeChecksum> whole_checksum(const S3Request& request);
// x-amz-checksum-algorithm and -type of CreateMultipartUpload and CopyObject.
// Errors: InvalidRequest - not served, or a type that the algorithm cannot have.
struct ChecksumChoice {
  ChecksumAlgorithm algorithm = ChecksumAlgorithm::none;
  ChecksumType type = ChecksumType::full_object;
};
S3Result<ChecksumChoice> checksum_choice(const S3Request& request);

}  // namespace penstock
