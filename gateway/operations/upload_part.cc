// PUT /{bucket}/{key}?partNumber&uploadId, from a body or from another object. A part is a blob of
// its own, so that Complete moves no data; the last one of a number wins.
#include "gateway/body/checksum_headers.h"
#include "gateway/operations/stored_bytes.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/object_headers.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

// Parts are never inline: they become entries of a record that must stay small.
constexpr std::uint64_t kNeverInline = 0;

struct OpenUpload {
  BucketPtr bucket;
  std::string id;
  std::uint16_t part_number = 0;
  UploadRecord record;
};

S3Task<OpenUpload> open_upload(Gateway& gateway, const S3Request& request) {
  CO_TRY(number, part_number_of(request));
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  CO_TRY(id, upload_id_of(request));
  Multipart& multipart = gateway.multipart;
  S3_TRY(record, co_await multipart.open(*bucket, request.key, id, request.deadline),
         S3Code::NoSuchUpload);
  OpenUpload upload{std::move(bucket), std::move(id), number, std::move(record)};
  co_return std::move(upload);
}

// The checksum that a part gets where its request names none.
ChecksumAlgorithm algorithm_of(const UploadRecord& upload) {
  return first_named(upload.checksum_algorithm, kChecksumByDefault);
}

// An upload of one algorithm takes no part with another; one without takes any.
S3Result<> check_algorithm(const UploadRecord& upload, ChecksumAlgorithm named) {
  if (named == ChecksumAlgorithm::none || upload.checksum_algorithm == ChecksumAlgorithm::none ||
      named == upload.checksum_algorithm) {
    return {};
  }
  std::string message = "Checksum Type mismatch occurred, expected checksum Type: ";
  message.append(to_string(upload.checksum_algorithm)).append(", actual checksum Type: ");
  return s3_error(S3Code::InvalidRequest, message.append(to_string(named)));
}

S3Task<> put_part(Gateway& gateway, const S3Request& request, OpenUpload upload,
                  const StoredBytes& stored, PartInfo part) {
  const auto leases = leases_of(stored);
  S3_CHECK(
      co_await gateway.multipart.put_part(*upload.bucket, request.key, upload.id, std::move(part),
                                          fresh_deadline(gateway, request), leases.get()),
      S3Code::NoSuchUpload);
  co_return S3Result<>{};
}

// The range of a copy: all of the source unless the request names one.
S3Result<ByteRange> copy_range(const S3Request& request, const ObjectRecord& source) {
  ByteRange range{0, source.size_bytes};
  if (const std::string* header = request.header("x-amz-copy-source-range")) {
    TRY(named, parse_copy_range(*header, source.size_bytes));
    range = named;
  }
  if (range.length > limits::kPutBytesMax) {
    return s3_error(S3Code::InvalidRequest,
                    "The specified copy source is larger than the maximum allowable size for a "
                    "copy source: 5368709120");
  }
  return range;
}

}  // namespace

S3Task<S3Response> upload_part(Gateway& gateway, const S3Request& request, BodyReader& body) {
  CO_CHECK(check_object_write_headers(request));
  if (body.length() > limits::kPutBytesMax) co_return s3_error(S3Code::EntityTooLarge);
  CO_TRY(upload, co_await open_upload(gateway, request));
  CO_TRY(named, body_algorithm(request));
  CO_CHECK(check_algorithm(upload.record, named));
  body.compute(first_named(named, algorithm_of(upload.record)));
  FragmentOwner owner = Index::owner(*upload.bucket, request.key, upload.id);
  CO_TRY(stored, co_await store_body(gateway, request, body, std::move(owner), kNeverInline));
  PartInfo part = make_part(stored, upload.part_number);
  part.modified = gateway.clock.wall();
  part.checksum = stored.checksum;
  CO_CHECK(co_await put_part(gateway, request, std::move(upload), stored, std::move(part)));
  S3Response response;
  response.set("ETag", in_quotes(md5_hex(stored.md5)));
  set_checksum(response, stored.checksum, 0);
  co_return std::move(response);
}

S3Task<S3Response> upload_part_copy(Gateway& gateway, const S3Request& request) {
  CO_CHECK(check_object_write_headers(request));
  CO_TRY(upload, co_await open_upload(gateway, request));
  CO_TRY(origin, co_await open_copy_source(gateway, request));
  CO_TRY(range, copy_range(request, origin.object.record));
  const WantedHashes wanted{true, algorithm_of(upload.record)};
  FragmentOwner owner = Index::owner(*upload.bucket, request.key, upload.id);
  CO_TRY(stored, co_await store_copy(gateway, request, origin.object, range, std::move(owner),
                                     kNeverInline, wanted));
  PartInfo part = make_part(stored, upload.part_number);
  part.modified = gateway.clock.wall();
  part.checksum = stored.checksum;
  const PartInfo written = part;
  CO_CHECK(co_await put_part(gateway, request, std::move(upload), stored, std::move(part)));
  XmlWriter xml;
  xml.open_root("CopyPartResult");
  xml.element("LastModified", iso_date(written.modified));
  xml.etag(md5_hex(written.md5));
  write_checksum(xml, written.checksum, 0);
  xml.close("CopyPartResult");
  S3Response response;
  response.set_xml(xml.take());
  co_return std::move(response);
}

}  // namespace penstock
