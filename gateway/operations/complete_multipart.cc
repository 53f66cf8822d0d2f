// POST /{bucket}/{key}?uploadId. Moves no data; the same request again gives the same answer for a
// day.
#include <charconv>

#include "gateway/body/checksum_headers.h"
#include "gateway/operations/stored_bytes.h"
#include "gateway/s3/conditional.h"
#include "gateway/s3/s3_xml_input.h"

namespace penstock {
namespace {

S3Result<std::optional<std::uint64_t>> object_size_header(const S3Request& request) {
  const std::string* value = request.header("x-amz-mp-object-size");
  if (value == nullptr) return std::optional<std::uint64_t>();
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), size);
  if (error != std::errc{} || end != value->data() + value->size()) {
    return s3_error(S3Code::InvalidRequest, "Value for x-amz-mp-object-size header is invalid.");
  }
  return std::optional(size);
}

S3Result<std::optional<ChecksumType>> checksum_type_header(const S3Request& request) {
  const std::string* value = request.header("x-amz-checksum-type");
  if (value == nullptr) return std::optional<ChecksumType>();
  const auto type = parse_checksum_type(*value);
  if (type) return type;
  return s3_error(S3Code::InvalidRequest, "Value for x-amz-checksum-type header is invalid.");
}

// What the headers and the document ask for.
S3Result<CompleteRequest> read_request(const S3Request& request, std::vector<CompletePart> parts) {
  CompleteRequest plan;
  TRY(condition, write_condition(request));
  TRY(size, object_size_header(request));
  TRY(type, checksum_type_header(request));
  TRY(whole, whole_checksum(request));
  if (whole.part_count && *whole.part_count != parts.size()) return s3_error(S3Code::BadDigest);
  plan.parts = std::move(parts);
  plan.condition = std::move(condition);
  plan.object_size = size;
  plan.checksum_type = type;
  plan.checksum = std::move(whole.checksum);
  if (type) plan.checksum.type = *type;  // the suffix of a composite value may be left out
  return plan;
}

S3Error part_error(S3Code code, const std::string& upload_id, std::uint16_t number,
                   const std::vector<CompletePart>& parts) {
  S3Error error = s3_error(code);
  error.details.emplace_back("UploadId", upload_id);
  error.details.emplace_back("PartNumber", std::to_string(number));
  for (const auto& part : parts) {
    if (part.number != number) continue;
    error.details.emplace_back("ETag", part.etag);
    break;
  }
  return error;
}

S3Result<> check_fault(const Multipart::Answer& done, const std::string& upload_id,
                       const std::vector<CompletePart>& parts, std::uint64_t part_bytes_min) {
  using Fault = PartFault;
  switch (done.fault) {
    case Fault::none:
      return {};
    case Fault::missing:
      return part_error(S3Code::InvalidPart, upload_id, done.fault_part, parts);
    case Fault::algorithm: {
      S3Error error = part_error(S3Code::InvalidRequest, upload_id, done.fault_part, parts);
      error.message = "The checksum of a part is named in another algorithm than the part has.";
      return error;
    }
    case Fault::order:
      return s3_error(S3Code::InvalidPartOrder);
    case Fault::too_small: {
      S3Error error = part_error(S3Code::EntityTooSmall, upload_id, done.fault_part, parts);
      error.details.emplace_back("ProposedSize", std::to_string(done.fault_bytes));
      error.details.emplace_back("MinSizeAllowed", std::to_string(part_bytes_min));
      return error;
    }
    case Fault::checksum:
      if (done.fault_part == 0) return s3_error(S3Code::BadDigest);
      return part_error(S3Code::InvalidPart, upload_id, done.fault_part, parts);
    case Fault::size:
      return s3_error(S3Code::InvalidRequest,
                      "The provided 'x-amz-mp-object-size' header does not match what was "
                      "computed");
    case Fault::type:
      return s3_error(S3Code::InvalidRequest,
                      "The upload was created using another checksum mode. The complete request "
                      "must use the same checksum mode.");
  }
  return s3_error(S3Code::InternalError);
}

std::string result_xml(const S3Request& request, const ObjectRecord& record) {
  const std::string* host = request.header("host");
  XmlWriter xml;
  xml.open_root("CompleteMultipartUploadResult");
  xml.element("Location", "http://" + (host == nullptr ? std::string() : *host) + request.path);
  xml.element("Bucket", request.bucket);
  xml.element("Key", request.key);
  xml.etag(record.etag);
  for (const auto& checksum : record.checksums) {
    write_checksum(xml, checksum, record.part_count);
    xml.element("ChecksumType", to_string(checksum.type));
  }
  xml.close("CompleteMultipartUploadResult");
  return xml.take();
}

}  // namespace

S3Task<S3Response> complete_multipart_upload(Gateway& gateway, const S3Request& request,
                                             BodyReader& body) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  CO_TRY(document, co_await read_document(gateway, request, body));
  CO_TRY(parts, parse_complete(std::move(document.text)));
  CO_TRY(id, upload_id_of(request));
  CO_TRY(plan, read_request(request, parts));
  plan.part_bytes_min = gateway.config.part_bytes_min;
  const Condition condition = plan.condition;
  const auto done = co_await gateway.multipart.complete(
      *bucket, request.key, id, std::move(plan), fresh_deadline(gateway, request), request.memory);
  if (!done) co_return write_failure(done.error(), condition);
  CO_CHECK(check_fault(*done, id, parts, gateway.config.part_bytes_min));
  S3Response response;
  response.set_xml(result_xml(request, done->record));
  co_return std::move(response);
}

}  // namespace penstock
