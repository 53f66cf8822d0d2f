// What operations do first: find the bucket, check who may use it, read the ids of uploads and
// parts.
// Ownership: every reference outlives the awaits.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/operations/operations.h"
#include "gateway/s3/s3_xml.h"

namespace penstock {

using BucketPtr = std::shared_ptr<const Bucket>;

// The bucket of the request, if the caller may use it: a bucket belongs to its owner.
// Errors: InvalidBucketName; NoSuchBucket; AccessDenied.
S3Task<BucketPtr> open_bucket(Gateway& gateway, const S3Request& request);
// The same for its deleter. A deletion that was cut off left the bucket closed to all others; this
// opens it, so that the deletion can be finished.
S3Task<BucketPtr> open_bucket_to_delete(Gateway& gateway, const S3Request& request);
// As open_bucket() without waiting, if the bucket is cached; nullopt: ask with open_bucket().
std::optional<S3Result<BucketPtr>> open_bucket_now(Gateway& gateway, const S3Request& request);

// The object that x-amz-copy-source names, its conditions checked, small bytes included.
// Errors: as open_bucket() for the source's bucket; NoSuchKey; PreconditionFailed.
struct CopyOrigin {
  BucketPtr bucket;
  std::string key;
  ObjectRead object;
};
S3Task<CopyOrigin> open_copy_source(Gateway& gateway, const S3Request& request);

// Memory of the caller's account; waits for it, at most limits::kMemoryWait. Errors: SlowDown.
S3Task<MemoryBudget::Lease> take_memory(Gateway& gateway, const S3Request& request, MemoryUse use,
                                        std::size_t bytes);
// The same for a document that is about to be made.
S3Task<MemoryBudget::Lease> lease_document(Gateway& gateway, const S3Request& request,
                                           std::size_t bytes);
// A turn to make a list, in which accounts rotate, and memory for the page and what is read for it.
// A page costs the time of thousands of small requests, and who lists wants all pages: it waits for
// both together up to kListWait, which leaves two thirds of the request's time. Errors: SlowDown.
inline constexpr std::chrono::seconds kListWait{10};
struct ListRoom {
  Turns::Turn turn;
  MemoryBudget::Lease memory;
};
S3Task<ListRoom> take_list_room(Gateway& gateway, const S3Request& request, std::size_t bytes);
// At least the bytes of an answer that repeats what the request says, beside its entries.
std::size_t answer_bytes_max(const S3Request& request);
// The text as the answer's body, with the memory that was leased for it.
S3Response xml_response(XmlWriter& xml, MemoryBudget::Lease memory);

// For what is left to do after a body, whose bytes have their own time.
Deadline fresh_deadline(Gateway& gateway, const S3Request& request);
// uploadId of the query. Errors: NoSuchUpload - also for one that cannot be ours.
S3Result<std::string> upload_id_of(const S3Request& request);
// partNumber of the query. Errors: InvalidArgument - not 1 … limits::kPartsMax.
S3Result<std::uint16_t> part_number_of(const S3Request& request);

std::string in_quotes(std::string_view etag);
// <name><ID>…</ID><DisplayName>…</DisplayName></name>
void write_owner(XmlWriter& xml, std::string_view name, std::string_view id,
                 std::string_view display_name);

}  // namespace penstock
