// PUT /{bucket}/{key} with x-amz-copy-source. Between keys the bytes are copied, so that no
// fragment is ever shared; an object copied onto itself only gets new headers and keeps its blobs.
#include "gateway/body/checksum_headers.h"
#include "gateway/operations/stored_bytes.h"
#include "gateway/s3/conditional.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/object_headers.h"
#include "penstock/limits.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

// How often new headers follow an object that changes under them.
constexpr int kReplacedMax = 5;

// What the request asks for, apart from the source.
struct CopyPlan {
  bool replace_headers = false;
  StoredHeaders headers;                                  // of the request
  ChecksumAlgorithm algorithm = ChecksumAlgorithm::none;  // asked for by name
  Condition condition;                                    // on the destination
};

S3Result<bool> replaces(const S3Request& request, std::string_view directive) {
  const std::string* value = request.header(directive);
  if (value == nullptr || *value == "COPY") return false;
  if (*value == "REPLACE") return true;
  S3Error error = s3_error(S3Code::InvalidArgument, "Unknown metadata directive.");
  error.details.emplace_back("ArgumentName", std::string(directive));
  error.details.emplace_back("ArgumentValue", *value);
  return error;
}

S3Result<CopyPlan> plan_copy(const S3Request& request) {
  CHECK_OK(check_object_write_headers(request));
  CopyPlan plan;
  TRY(replace, replaces(request, "x-amz-metadata-directive"));
  CHECK_OK(replaces(request, "x-amz-tagging-directive"));  // there are no tags to keep or to drop
  TRY(headers, stored_headers(request));
  TRY(choice, checksum_choice(request));
  plan.replace_headers = replace;
  plan.headers = std::move(headers);
  plan.algorithm = choice.algorithm;
  return plan;
}

constexpr std::string_view kRedirect = "x-amz-website-redirect-location";

// Headers of the copy: the request's, or the source's. A redirect belongs to one object and is not
// copied.
StoredHeaders headers_of_copy(const CopyPlan& plan, const ObjectRecord& source) {
  if (plan.replace_headers) return plan.headers;
  StoredHeaders headers = source.headers;
  headers.erase(std::string(kRedirect));
  if (const auto redirect = plan.headers.find(std::string(kRedirect));
      redirect != plan.headers.end()) {
    headers.insert(*redirect);
  }
  return headers;
}

// Whether a copy onto itself changes anything; S3 refuses one that does not.
bool changes_something(const S3Request& request, const CopyPlan& plan) {
  return plan.replace_headers || plan.algorithm != ChecksumAlgorithm::none ||
         request.header("x-amz-storage-class") != nullptr || request.header(kRedirect) != nullptr;
}

// The checksum that the copy carries: the one asked for, else the source's algorithm over the
// whole, else the store's choice.
ChecksumAlgorithm checksum_of_copy(const CopyPlan& plan, const ObjectRecord& source) {
  if (plan.algorithm != ChecksumAlgorithm::none) return plan.algorithm;
  return source.checksums.empty() ? kChecksumByDefault : source.checksums.front().algorithm;
}

// The same checksum of the same bytes, if the source has it.
const StoredChecksum* known_checksum(const ObjectRecord& source, ChecksumAlgorithm algorithm) {
  for (const auto& checksum : source.checksums) {
    if (checksum.algorithm == algorithm && checksum.type == ChecksumType::full_object) {
      return &checksum;
    }
  }
  return nullptr;
}

Md5Digest md5_of_etag(std::string_view etag) {
  Md5Digest md5{};
  const auto raw = hex_decode(etag);
  if (raw && raw->size() == md5.size()) std::copy(raw->begin(), raw->end(), md5.begin());
  return md5;
}

S3Response copy_response(const ObjectRecord& record) {
  XmlWriter xml;
  xml.open_root("CopyObjectResult");
  xml.element("LastModified", iso_date(record.modified));
  xml.etag(record.etag);
  for (const auto& checksum : record.checksums) {
    write_checksum(xml, checksum, record.part_count);
    xml.element("ChecksumType", to_string(checksum.type));
  }
  xml.close("CopyObjectResult");
  S3Response response;
  response.set_xml(xml.take());
  return response;
}

S3Result<> check_destination(const CopyPlan& plan, std::string_view etag) {
  const Condition& condition = plan.condition;
  if (!condition.if_match.empty() && !etag_listed(condition.if_match, etag, EtagMatch::strong)) {
    return precondition_failed("If-Match");
  }
  if (!condition.if_none_match.empty() &&
      etag_listed(condition.if_none_match, etag, EtagMatch::weak)) {
    return precondition_failed("If-None-Match");
  }
  return {};
}

// New headers for the object itself, again if another update came between.
S3Task<S3Response> copy_onto_itself(Gateway& gateway, const S3Request& request, CopyPlan plan,
                                    CopyOrigin origin) {
  for (int attempt = 0; attempt < kReplacedMax; ++attempt) {
    CO_CHECK(check_destination(plan, origin.object.record.etag));
    ObjectRecord record = origin.object.record;
    record.headers = headers_of_copy(plan, record);
    record.modified = gateway.clock.wall();
    auto replaced = co_await gateway.objects.replace_metadata(
        *origin.bucket, origin.key, origin.object.op_id, std::move(record), request.deadline);
    if (replaced) co_return copy_response(*replaced);
    if (replaced.error().code != Errc::precondition) co_return to_s3(replaced.error());
    CO_TRY(again, co_await open_copy_source(gateway, request));
    origin = std::move(again);
  }
  co_return s3_error(S3Code::SlowDown);
}

// The bytes, under a new name.
S3Task<S3Response> copy_bytes(Gateway& gateway, const S3Request& request, BucketPtr bucket,
                              CopyPlan plan, CopyOrigin origin) {
  const ObjectRecord& source = origin.object.record;
  const ChecksumAlgorithm algorithm = checksum_of_copy(plan, source);
  const StoredChecksum* known = known_checksum(source, algorithm);
  // The copy is one blob: its ETag is the MD5 of the whole, which a multipart object's is not.
  const bool new_etag = source.part_count > 0;
  const WantedHashes wanted{new_etag, known != nullptr ? ChecksumAlgorithm::none : algorithm};
  const ByteRange whole{0, source.size_bytes};
  FragmentOwner owner = Index::owner(*bucket, request.key);
  CO_TRY(stored, co_await store_copy(gateway, request, origin.object, whole, std::move(owner),
                                     gateway.blobs.inline_bytes_max(), wanted));
  ObjectRecord record;
  record.size_bytes = stored.size_bytes;
  if (!new_etag) stored.md5 = md5_of_etag(source.etag);
  record.etag = new_etag ? md5_hex(stored.md5) : source.etag;
  record.modified = gateway.clock.wall();
  record.owner = request.principal.account_id;
  record.headers = headers_of_copy(plan, source);
  record.checksums.push_back(known != nullptr ? *known : stored.checksum);
  if (stored.blob) record.parts.push_back(make_part(stored, 0));
  CO_TRY(done, co_await put_stored(gateway, request, std::move(bucket), std::move(record), stored,
                                   std::move(plan.condition)));
  co_return copy_response(done);
}

}  // namespace

S3Task<S3Response> copy_object(Gateway& gateway, const S3Request& request) {
  CO_TRY(plan, plan_copy(request));
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  CO_TRY(condition, write_condition(request));
  plan.condition = std::move(condition);
  CO_TRY(origin, co_await open_copy_source(gateway, request));
  if (origin.object.record.size_bytes > limits::kPutBytesMax) {
    co_return s3_error(S3Code::InvalidRequest,
                       "The specified copy source is larger than the maximum allowable size for a "
                       "copy source: 5368709120");
  }
  const bool itself = origin.bucket->name == request.bucket && origin.key == request.key;
  if (itself && !changes_something(request, plan)) {
    co_return s3_error(S3Code::InvalidRequest,
                       "This copy request is illegal because it is trying to copy an object to "
                       "itself without changing the object's metadata, storage class, website "
                       "redirect location or encryption attributes.");
  }
  const bool needs_bytes = plan.algorithm != ChecksumAlgorithm::none &&
                           known_checksum(origin.object.record, plan.algorithm) == nullptr;
  if (itself && !needs_bytes) {
    co_return co_await copy_onto_itself(gateway, request, std::move(plan), std::move(origin));
  }
  CO_CHECK(co_await check_fast(gateway, request, *bucket, plan.condition));
  co_return co_await copy_bytes(gateway, request, std::move(bucket), std::move(plan),
                                std::move(origin));
}

}  // namespace penstock
