// Shared by the record encodings; not for others.
// Tags of all records: on disk, never renumber, never reuse.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/records/object_record.h"
#include "server/records/record_fields.h"

namespace penstock::record {

namespace blob_tag {
inline constexpr std::uint8_t kWriteId = 1;
inline constexpr std::uint8_t kK = 2;
inline constexpr std::uint8_t kM = 3;
inline constexpr std::uint8_t kUnitBytes = 4;
inline constexpr std::uint8_t kSizeBytes = 5;
inline constexpr std::uint8_t kLocations = 6;
inline constexpr std::uint8_t kManifestPage = 7;  // in hints only
// Reserved: 0x81 digests of the fragments.
}  // namespace blob_tag

namespace part_tag {
inline constexpr std::uint8_t kNumber = 1;
inline constexpr std::uint8_t kSizeBytes = 2;
inline constexpr std::uint8_t kMd5 = 3;
inline constexpr std::uint8_t kChecksum = 4;
inline constexpr std::uint8_t kModified = 5;
inline constexpr std::uint8_t kInlineData = 6;
inline constexpr std::uint8_t kBlob = 7;
// Reserved: 0x10 the part's encryption.
}  // namespace part_tag

namespace page_tag {  // of the entry of a manifest page in a record, and of the page itself
inline constexpr std::uint8_t kBlob = 1;
inline constexpr std::uint8_t kFirstOffset = 2;
inline constexpr std::uint8_t kFirstPart = 3;
inline constexpr std::uint8_t kEntries = 4;
inline constexpr std::uint8_t kPart = 0x41;
}  // namespace page_tag

namespace summary_tag {  // object
inline constexpr std::uint8_t kSizeBytes = 1;
inline constexpr std::uint8_t kEtagDigest = 2;
inline constexpr std::uint8_t kEtagText = 3;
inline constexpr std::uint8_t kModified = 4;
inline constexpr std::uint8_t kOwner = 5;
inline constexpr std::uint8_t kChecksumAlgorithm = 6;
inline constexpr std::uint8_t kChecksumType = 7;
// Reserved: 0x10 version id; 0x50 version stubs; 0x81 storage class; 0x82 restore state.
}  // namespace summary_tag

namespace object_tag {
inline constexpr std::uint8_t kPartCount = 1;
inline constexpr std::uint8_t kUploadId = 2;
inline constexpr std::uint8_t kAttempt = 3;
inline constexpr std::uint8_t kChecksum = 0x41;
inline constexpr std::uint8_t kHeader = 0x42;
inline constexpr std::uint8_t kPart = 0x43;
inline constexpr std::uint8_t kPage = 0x44;
// Reserved, required: 0x10 server-side encryption envelope, 0x11 retention and legal hold,
// 0x12 pointer to older versions, 0x50 version stub. Optional: 0x81 number of user tags, 0xc1 tag.
}  // namespace object_tag

namespace bucket_tag {
inline constexpr std::uint8_t kId = 1;
inline constexpr std::uint8_t kNumber = 2;
inline constexpr std::uint8_t kState = 3;
inline constexpr std::uint8_t kPartitions = 4;
inline constexpr std::uint8_t kOwner = 5;
inline constexpr std::uint8_t kCreated = 6;
inline constexpr std::uint8_t kRegion = 7;
// Reserved, required: 0x10 versioning, 0x11 object lock, 0x12 policy, 0x13 default encryption.
// Optional: 0x81 CORS, 0xc1 tag.
}  // namespace bucket_tag

namespace upload_summary_tag {
inline constexpr std::uint8_t kOwner = 1;
inline constexpr std::uint8_t kInitiated = 2;
inline constexpr std::uint8_t kChecksumAlgorithm = 3;
inline constexpr std::uint8_t kChecksumType = 4;
}  // namespace upload_summary_tag

namespace upload_tag {
inline constexpr std::uint8_t kAttempt = 1;
inline constexpr std::uint8_t kObjectSeen = 2;
inline constexpr std::uint8_t kTargetSummary = 3;
inline constexpr std::uint8_t kTargetPayload = 4;
inline constexpr std::uint8_t kIfMatch = 5;
inline constexpr std::uint8_t kIfNoneMatch = 6;
inline constexpr std::uint8_t kEtag = 7;
inline constexpr std::uint8_t kCompleteDigest = 8;
inline constexpr std::uint8_t kHeader = 0x41;
// Reserved, required: 0x10 server-side encryption envelope, 0x11 retention. Optional: 0xc1 user
// tag.
}  // namespace upload_tag

using Headers = std::map<std::string, std::string>;

// Fields of blobs and parts. The getters fail the reader's record by nullopt.
std::string encode_blob(const BlobRef& blob, bool with_write_id);
std::optional<BlobRef> decode_blob(std::string_view fields);
std::string encode_part(const PartInfo& part);
std::optional<PartInfo> decode_part(std::string_view fields);
std::string encode_page(const ManifestPage& page);
std::optional<ManifestPage> decode_page(std::string_view fields);
std::string encode_checksum(const StoredChecksum& checksum);
std::optional<StoredChecksum> decode_checksum(std::string_view field);

void put_headers(FieldWriter& out, std::uint8_t tag, const Headers& headers);
// One header into `headers`; they come in order of their names. False: it does not fit.
bool take_header(Headers& headers, std::string_view field);

std::string encode_object_summary(const ObjectRecord& record);
std::string encode_object_payload(const ObjectRecord& record);
std::optional<ObjectRecord> decode_object(std::string_view summary, std::string_view payload);

// Moves a decoded value to `to`; a missing one fails the reader.
template <class T>
void store(FieldReader& in, std::optional<T> value, T& to) {
  if (value)
    to = std::move(*value);
  else
    in.fail();
}
template <class T>
void store(FieldReader& in, std::optional<T> value, std::optional<T>& to) {
  if (value)
    to = std::move(value);
  else
    in.fail();
}
template <class T>
void append(FieldReader& in, std::optional<T> value, std::vector<T>& to) {
  if (value)
    to.push_back(std::move(*value));
  else
    in.fail();
}

inline ChecksumAlgorithm checksum_algorithm(FieldReader& in) {
  constexpr auto kLast = static_cast<std::uint64_t>(ChecksumAlgorithm::sha256);
  return static_cast<ChecksumAlgorithm>(in.number(kLast));
}
inline ChecksumType checksum_type(FieldReader& in) {
  constexpr auto kLast = static_cast<std::uint64_t>(ChecksumType::composite);
  return static_cast<ChecksumType>(in.number(kLast));
}

}  // namespace penstock::record
