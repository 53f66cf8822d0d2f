// Bytes on their way into an object or a part: from a body or from another object, inline or as a
// durable blob. Ownership: every reference outlives the awaits.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/operations/access.h"
#include "gateway/s3/byte_range.h"
#include "penstock/md5.h"

namespace penstock {

struct StoredBytes {
  std::uint64_t size_bytes = 0;
  Md5Digest md5{};                     // of a copy: only if it was asked for
  StoredChecksum checksum;             // none if nobody asked for one
  SharedBytes inline_bytes;            // null if not inline
  std::unique_ptr<BlobWriter> writer;  // null without a blob
  std::optional<BlobRef> blob;
  MemoryBudget::Lease memory;  // of what is inline, until it is written
};

// The hashes that a copy needs of the bytes that pass. Each costs CPU, so it is chosen.
struct WantedHashes {
  bool md5 = false;
  ChecksumAlgorithm checksum = ChecksumAlgorithm::none;
};

// A whole XML document. Its memory is counted as its bytes arrive, for as long as it lives.
// Errors: MalformedXML - longer than limits::kXmlBytesMax; SlowDown - no memory; those of the body.
struct RequestDocument {
  std::string text;
  std::vector<MemoryBudget::Lease> memory;
};
S3Task<RequestDocument> read_document(Gateway& gateway, const S3Request& request, BodyReader& body);
// Stores a body; one of up to `inline_max` bytes stays in memory. Nothing remains after a failure.
S3Task<StoredBytes> store_body(Gateway& gateway, const S3Request& request, BodyReader& body,
                               FragmentOwner owner, std::uint64_t inline_max);
// Stores a range of an object, hashing what passes. Nothing remains after a failure.
S3Task<StoredBytes> store_copy(Gateway& gateway, const S3Request& request, const ObjectRead& source,
                               ByteRange range, FragmentOwner owner, std::uint64_t inline_max,
                               WantedHashes wanted);
// Leases of the blob, for the update that names it; null without a blob. `stored` outlives it.
std::unique_ptr<LeaseKeeper> leases_of(const StoredBytes& stored);

// What a record says of the bytes: number 0 for a plain object, whose checksum the record has.
PartInfo make_part(const StoredBytes& stored, std::uint16_t number);
// Fails if a condition fails already, before the bytes are moved; succeeds if that is not known
// soon.
S3Task<> check_fast(Gateway& gateway, const S3Request& request, const Bucket& bucket,
                    Condition condition);
// Puts `record`, whose bytes are `stored`; once more if the bucket has changed since the look-up.
S3Task<ObjectRecord> put_stored(Gateway& gateway, const S3Request& request, BucketPtr bucket,
                                ObjectRecord record, const StoredBytes& stored,
                                Condition condition);

}  // namespace penstock
