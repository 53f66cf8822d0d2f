// PUT /{bucket}/{key}. Order: headers -> bucket -> conditions, fast -> body into durable fragments
// -> digests verified -> record. The object is visible at the record and not before.
#include "gateway/body/checksum_headers.h"
#include "gateway/operations/stored_bytes.h"
#include "gateway/s3/conditional.h"
#include "gateway/s3/object_headers.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

S3Error too_large(std::uint64_t size) {
  S3Error error = s3_error(S3Code::EntityTooLarge);
  error.details.emplace_back("ProposedSize", std::to_string(size));
  error.details.emplace_back("MaxSizeAllowed", std::to_string(limits::kPutBytesMax));
  return error;
}

}  // namespace

S3Task<S3Response> put_object(Gateway& gateway, const S3Request& request, BodyReader& body) {
  CO_CHECK(check_object_write_headers(request));
  CO_TRY(headers, stored_headers(request));
  CO_TRY(algorithm, body_algorithm(request));
  if (body.length() > limits::kPutBytesMax) co_return too_large(body.length());
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  CO_TRY(condition, write_condition(request));
  CO_CHECK(co_await check_fast(gateway, request, *bucket, condition));
  body.compute(first_named(algorithm, kChecksumByDefault));
  FragmentOwner owner = Index::owner(*bucket, request.key);
  const std::uint64_t inline_max = gateway.blobs.inline_bytes_max();
  CO_TRY(stored, co_await store_body(gateway, request, body, std::move(owner), inline_max));

  ObjectRecord record;
  record.size_bytes = stored.size_bytes;
  record.etag = md5_hex(stored.md5);
  record.modified = gateway.clock.wall();
  record.owner = request.principal.account_id;
  record.headers = std::move(headers);
  if (stored.checksum.algorithm != ChecksumAlgorithm::none) {
    record.checksums.push_back(stored.checksum);
  }
  if (stored.blob) record.parts.push_back(make_part(stored, 0));
  CO_TRY(done, co_await put_stored(gateway, request, std::move(bucket), std::move(record), stored,
                                   std::move(condition)));
  S3Response response;
  response.set("ETag", in_quotes(done.etag));
  set_checksum(response, stored.checksum, 0);
  co_return std::move(response);
}

}  // namespace penstock
