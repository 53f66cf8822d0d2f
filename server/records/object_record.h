// What the registers of objects, uploads, parts and buckets say. Versioned encoding of summary and
// payload, golden-tested; on disk, never renumber a field. Reserved from the start: versions, tags,
// server-side encryption, retention (unknown optional fields are kept through a re-encode, unknown
// required ones are refused).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/checksum.h"
#include "penstock/register_value.h"
#include "penstock/result.h"
#include "penstock/types.h"
#include "placement/layout.h"

namespace penstock {

// Where one slot's fragment lies. A zero volume = missing (its volume failed during the upload;
// repair will place it).
struct Location {
  VolumeId volume;
  Generation generation;
  auto operator<=>(const Location&) const = default;
};

// One immutable blob: the body of a PUT, of one part, or of a manifest page.
struct BlobRef {
  WriteId write_id;
  BlobShape shape;
  std::vector<Location> locations;  // shape.slots() of them, by slot
  FragmentId fragment(std::uint32_t slot) const {
    return {write_id, static_cast<std::uint8_t>(slot), locations[slot].generation};
  }
  // Of a hint: a page of a manifest that is freed as a whole, and with it the parts that it names.
  bool manifest_page = false;
  std::string kept{};  // fields of a later version, written back as they are
  bool operator==(const BlobRef&) const = default;
};

struct StoredChecksum {
  ChecksumAlgorithm algorithm = ChecksumAlgorithm::none;
  ChecksumType type = ChecksumType::full_object;
  std::string raw;  // digest bytes, big endian for CRCs; composite: the digest of digests, the part
                    // count is the record's
  bool operator==(const StoredChecksum&) const = default;
};

// One part of a completed object, or a part register's content.
struct PartInfo {
  std::uint16_t number = 0;
  std::uint64_t size_bytes = 0;
  std::array<std::uint8_t, 16> md5{};
  StoredChecksum checksum;
  WallTime modified{};
  std::string
      inline_data;  // part register: a part of <= inline_bytes_max bytes lies in the payload itself
  std::optional<BlobRef> blob;  // absent for an empty or inline part
  std::string kept{};           // as BlobRef::kept
};

// More than limits::kPartsInRecordMax parts: pages of limits::kManifestPageEntries entries, each an
// immutable blob at 1+m.
struct ManifestPage {
  BlobRef blob;
  std::uint64_t first_offset = 0;
  std::uint16_t first_part_index = 0;
  std::uint16_t entries = 0;
  std::string kept{};
};

struct ObjectRecord {
  std::uint64_t size_bytes = 0;
  std::string etag;     // without quotes: 32 hex digits, "-N" behind for a multipart object
  WallTime modified{};  // Last-Modified = max(previous, now)
  std::string owner;    // account id
  std::vector<StoredChecksum> checksums;
  // Stored headers by lower-case name: content-type, cache-control, content-disposition,
  // content-encoding, content-language, expires, x-amz-website-redirect-location,
  // x-amz-storage-class; user metadata with its x-amz-meta- prefix.
  std::map<std::string, std::string> headers;
  std::uint32_t part_count = 0;  // 0 = not multipart
  std::vector<PartInfo>
      parts;  // one entry (number 0) for a plain object with a blob or none if inline or empty
  std::vector<ManifestPage> manifest;
  std::string upload_id;       // the upload whose Complete wrote it
  std::string attempt;         // its attempt id (encoded op-id)
  std::string kept_summary{};  // as BlobRef::kept
  std::string kept_payload{};
};

// All that a LIST shows of an object.
struct ObjectSummary {
  std::uint64_t size_bytes = 0;
  std::string etag;
  WallTime modified{};
  std::string owner;
  ChecksumAlgorithm checksum_algorithm = ChecksumAlgorithm::none;
  ChecksumType checksum_type = ChecksumType::full_object;
};

enum class BucketState : std::uint8_t { open = 0, deleting = 1 };
struct BucketRecord {
  BucketId id;
  BucketNumber number;
  BucketState state = BucketState::open;
  std::uint32_t partitions = 1;  // S_b
  std::string owner;
  WallTime created{};
  std::string region;
  std::string kept{};
};

struct UploadRecord {  // upload_open … upload_aborted: the state is the value's kind
  std::string owner;
  WallTime initiated{};
  std::map<std::string, std::string> headers;  // what the finished object will carry
  ChecksumAlgorithm checksum_algorithm = ChecksumAlgorithm::none;
  ChecksumType checksum_type = ChecksumType::composite;
  // completing, reopening:
  OpId attempt;                         // op-id of the object update
  OpId object_seen;                     // op-id of the object when the Complete began
  std::optional<ObjectRecord> target;   // what the object will be
  std::string if_match, if_none_match;  // conditions of the Complete
  // done:
  std::string etag;             // the stored answer
  std::string complete_digest;  // SHA-256 over what the Complete asked for: is a repeated one the
                                // same?
  std::string kept_summary{};
  std::string kept_payload{};
};

// Fill kind, summary, payload and inline_bytes of a value; op-id, chain, origin are the proposer's.
RegisterValue to_value(const ObjectRecord& record, std::uint32_t inline_bytes);
RegisterValue to_value(const BucketRecord& record);
RegisterValue to_value(const UploadRecord& record, ValueKind state);
RegisterValue to_value(const PartInfo& part);
RegisterValue tombstone_value();
// Errors of all: corrupt - another kind, an unknown version or required field, lengths that do not
// fit.
Result<ObjectRecord> object_record(const RegisterValue& value);
Result<BucketRecord> bucket_record(const RegisterValue& value);
Result<UploadRecord> upload_record(const RegisterValue& value);
Result<PartInfo> part_info(const RegisterValue& value);
Result<ObjectSummary> object_summary(std::string_view summary);
// What the rows of a scan say without their payloads: a whole BucketRecord; owner, initiated and
// checksum fields of an upload.
Result<BucketRecord> bucket_summary(std::string_view summary);
Result<UploadRecord> upload_summary(std::string_view summary);
// Pages of a manifest.
std::string encode_manifest_page(const std::vector<PartInfo>& parts);
Result<std::vector<PartInfo>> decode_manifest_page(std::string_view bytes);

// Every blob that a value owns, for hints: what an update frees is refs(old) - refs(new). An object
// owns its parts and pages, a part register its blob. The parts of an upload that completes are
// still owned by their part registers; the upload owns only the manifest pages of its target, which
// pass to the object (so completing -> done frees nothing).
Result<std::vector<BlobRef>> blobs_of(const RegisterValue& value);
std::string encode_locations(const BlobRef& blob);  // Hint::locations
Result<BlobRef> decode_locations(WriteId write_id, std::string_view bytes);

}  // namespace penstock
