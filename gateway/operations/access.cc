#include "gateway/operations/access.h"

#include <algorithm>
#include <charconv>

#include "gateway/s3/bucket_name.h"
#include "gateway/s3/conditional.h"
#include "gateway/s3/copy_source.h"
#include "gateway/s3/request_times.h"
#include "penstock/limits.h"
#include "penstock/row_key.h"

namespace penstock {
namespace {

S3Error no_such_bucket(const std::string& name) {
  S3Error error = s3_error(S3Code::NoSuchBucket);
  error.details.emplace_back("BucketName", name);
  return error;
}

S3Result<> check_name(const std::string& name) {
  if (is_valid_bucket_name(name)) return {};
  if (name.starts_with('.')) return no_such_bucket(name);  // the system's own: they do not exist
  S3Error error = s3_error(S3Code::InvalidBucketName);
  error.details.emplace_back("BucketName", name);
  return error;
}

// `owner_header`: who the client believes to own the bucket.
S3Result<BucketPtr> check_access(const BucketPtr& bucket, const S3Request& request,
                                 std::string_view owner_header) {
  const std::string* expected = request.header(owner_header);
  if (bucket->record.owner == request.principal.account_id &&
      (expected == nullptr || *expected == bucket->record.owner)) {
    return bucket;
  }
  S3Error error = s3_error(S3Code::AccessDenied);
  error.headers.emplace_back("x-amz-bucket-region", bucket->record.region);
  return error;
}

S3Error not_opened(const Error& error, const std::string& name) {
  if (error.code == Errc::not_found) return no_such_bucket(name);
  return to_s3(error, S3Code::NoSuchBucket);
}

constexpr std::string_view kExpectedOwner = "x-amz-expected-bucket-owner";
constexpr std::string_view kExpectedSourceOwner = "x-amz-source-expected-bucket-owner";

S3Task<BucketPtr> open_named(Gateway& gateway, const S3Request& request, std::string name,
                             std::string_view owner_header) {
  CO_CHECK(check_name(name));
  const auto found = co_await gateway.index.bucket(name, request.deadline);
  if (!found) co_return not_opened(found.error(), name);
  co_return check_access(*found, request, owner_header);
}

}  // namespace

S3Task<BucketPtr> open_bucket(Gateway& gateway, const S3Request& request) {
  return open_named(gateway, request, request.bucket, kExpectedOwner);
}

S3Task<BucketPtr> open_bucket_to_delete(Gateway& gateway, const S3Request& request) {
  CO_CHECK(check_name(request.bucket));
  Index& index = gateway.index;
  const auto found = co_await index.bucket_in_any_state(request.bucket, request.deadline);
  if (!found) co_return not_opened(found.error(), request.bucket);
  co_return check_access(*found, request, kExpectedOwner);
}

std::optional<S3Result<BucketPtr>> open_bucket_now(Gateway& gateway, const S3Request& request) {
  const BucketPtr cached = gateway.index.cached_bucket(request.bucket);
  if (!cached) return std::nullopt;
  return check_access(cached, request, kExpectedOwner);
}

S3Task<CopyOrigin> open_copy_source(Gateway& gateway, const S3Request& request) {
  const std::string* header = request.header("x-amz-copy-source");
  CO_TRY(source, parse_copy_source(header == nullptr ? std::string_view() : *header));
  CO_CHECK(check_copy_conditions(request));
  CO_TRY(bucket, co_await open_named(gateway, request, source.bucket, kExpectedSourceOwner));
  auto found = co_await gateway.objects.get(*bucket, source.key, true, request.deadline);
  if (!found) {
    S3Error error = to_s3(found.error(), S3Code::NoSuchKey);
    if (error.stale_bucket) gateway.index.forget_bucket(source.bucket);
    if (error.code == S3Code::NoSuchKey) error.details.emplace_back("Key", source.key);
    co_return error;
  }
  constexpr std::string_view kPrefix = "x-amz-copy-source-";
  const ReadDecision decision =
      check_read(request, kPrefix, found->record.etag, found->record.modified);
  if (decision.verdict != ReadVerdict::serve) {
    co_return precondition_failed(std::string(kPrefix).append(decision.header));
  }
  CopyOrigin origin{std::move(bucket), std::move(source.key), std::move(*found)};
  co_return std::move(origin);
}

S3Task<MemoryBudget::Lease> take_memory(Gateway& gateway, const S3Request& request, MemoryUse use,
                                        std::size_t bytes) {
  const PhaseTimer timer(request.times, gateway.clock, Phase::queue);
  const MemoryUser user{use, request.memory};
  const BootTime until = gateway.clock.boot() + limits::kMemoryWait;
  auto memory = co_await gateway.memory.take_patiently(gateway.clock, user, bytes, until);
  if (!memory) co_return to_s3(memory.error());
  co_return std::move(*memory);
}

S3Task<MemoryBudget::Lease> lease_document(Gateway& gateway, const S3Request& request,
                                           std::size_t bytes) {
  if (bytes <= limits::kFreeDocumentBytes) co_return MemoryBudget::Lease();
  co_return co_await take_memory(gateway, request, MemoryUse::documents, bytes);
}

// Who waits for memory that others of his account have does not keep the turn meanwhile.
S3Task<ListRoom> take_list_room(Gateway& gateway, const S3Request& request, std::size_t bytes) {
  const PhaseTimer timer(request.times, gateway.clock, Phase::queue);
  const MemoryUser user{MemoryUse::documents, request.memory};
  const BootTime until = gateway.clock.boot() + kListWait;
  while (true) {
    auto turn = co_await gateway.lists->take(gateway.clock, request.memory.place, until);
    if (!turn) co_return to_s3(turn.error());
    ListRoom room{std::move(*turn), {}};
    if (bytes <= limits::kFreeDocumentBytes) co_return std::move(room);
    const BootTime next = std::min<BootTime>(until, gateway.clock.boot() + limits::kMemoryWait);
    auto memory = co_await gateway.memory.take_patiently(gateway.clock, user, bytes, next);
    if (memory) {
      room.memory = std::move(*memory);
      co_return std::move(room);
    }
    if (next == until) co_return to_s3(memory.error());
  }
}

std::size_t answer_bytes_max(const S3Request& request) {
  constexpr std::size_t kElements = 2048;
  std::size_t bytes = kElements + escaped_bytes_max(request.bucket);
  for (const auto& [name, value] : request.query) {
    bytes += std::max(escaped_bytes_max(value), 3 * value.size());
  }
  return bytes;
}

S3Response xml_response(XmlWriter& xml, MemoryBudget::Lease memory) {
  S3Response response;
  response.set_xml(xml.take());
  response.memory = std::move(memory);
  response.memory.shrink_to(std::get<std::string>(response.body).capacity());
  return response;
}

Deadline fresh_deadline(Gateway& gateway, const S3Request& request) {
  return request.deadline.moved_to(gateway.clock.boot() + limits::kOperationDeadline);
}

S3Result<std::string> upload_id_of(const S3Request& request) {
  const std::string* id = request.query_value("uploadId");
  if (id == nullptr || !is_upload_id(*id)) return s3_error(S3Code::NoSuchUpload);
  return *id;
}

S3Result<std::uint16_t> part_number_of(const S3Request& request) {
  const std::string* text = request.query_value("partNumber");
  std::uint32_t number = 0;
  if (text != nullptr) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error != std::errc{} || end != text->data() + text->size()) number = 0;
  }
  if (number >= 1 && number <= limits::kPartsMax) return static_cast<std::uint16_t>(number);
  S3Error error = s3_error(S3Code::InvalidArgument,
                           "Part number must be an integer between 1 and 10000, inclusive");
  error.details.emplace_back("ArgumentName", "partNumber");
  error.details.emplace_back("ArgumentValue", text == nullptr ? "" : *text);
  return error;
}

std::string in_quotes(std::string_view etag) {
  std::string out;
  out.reserve(etag.size() + 2);
  return out.append("\"").append(etag).append("\"");
}

void write_owner(XmlWriter& xml, std::string_view name, std::string_view id,
                 std::string_view display_name) {
  xml.open(name);
  xml.element("ID", id);
  xml.element("DisplayName", display_name);
  xml.close(name);
}

}  // namespace penstock
