// What a CompleteMultipartUpload asks for, checked against the parts that are stored: pure.
// Source: S3 API Reference, CompleteMultipartUpload; S3 User Guide, "Checking object integrity".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/limits.h"
#include "server/objects/condition.h"
#include "server/records/object_record.h"

namespace penstock {

struct CompletePart {
  std::uint16_t number = 0;
  std::string etag;         // without quotes
  StoredChecksum checksum;  // algorithm none = not given
};
struct CompleteRequest {
  std::vector<CompletePart> parts;
  Condition condition;
  std::optional<std::uint64_t> object_size;  // x-amz-mp-object-size
  StoredChecksum checksum;                   // of the whole, if given
  std::optional<ChecksumType> checksum_type;
  std::uint64_t part_bytes_min = limits::kPartBytesMin;  // of all parts but the last
};

// What is wrong with the request; the operation turns it into S3's error.
enum class PartFault : std::uint8_t {
  none,
  missing,    // InvalidPart: no such part, or another ETag or checksum
  order,      // InvalidPartOrder: numbers do not ascend
  too_small,  // EntityTooSmall: a part but the last below part_bytes_min
  checksum,   // BadDigest: the checksum of the whole is another
  size,       // InvalidRequest: x-amz-mp-object-size or the largest object
  type,       // InvalidRequest: another checksum type or algorithm than the upload's
  algorithm,  // InvalidRequest: a part's checksum is named in another algorithm than it has
};

struct CompletePlan {
  PartFault fault = PartFault::none;
  std::uint16_t fault_part = 0;
  std::uint64_t fault_bytes = 0;  // too_small: the size of that part
  // What the object will be, without its parts and Last-Modified.
  ObjectRecord target;
  std::vector<PartInfo> parts;     // those named, in order
  std::vector<BlobRef> left_over;  // blobs of stored parts that were not named
};
// `stored`: ascending by number.
CompletePlan plan_complete(const UploadRecord& upload, std::vector<PartInfo> stored,
                           const CompleteRequest& request);

// SHA-256 over (number, ETag) of the parts named: tells whether a Complete is the same again.
std::string complete_digest(const CompleteRequest& request);
// The ETag of a multipart object: MD5 of the parts' MD5s, and their number.
std::string multipart_etag(const std::vector<PartInfo>& parts);
// The checksum of the whole from those of its parts; nullopt if one of them is missing.
std::optional<StoredChecksum> combined_checksum(ChecksumAlgorithm algorithm, ChecksumType type,
                                                const std::vector<PartInfo>& parts);

}  // namespace penstock
