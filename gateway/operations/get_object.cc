// GET and HEAD /{bucket}/{key}: the record, conditions, the range or part asked for, then verified
// bytes.
#include <array>

#include "gateway/body/checksum_headers.h"
#include "gateway/operations/access.h"
#include "gateway/operations/object_body.h"
#include "gateway/s3/byte_range.h"
#include "gateway/s3/conditional.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/http_text.h"
#include "gateway/s3/object_headers.h"
#include "gateway/s3/request_times.h"

namespace penstock {
namespace {

// How often a read follows an object that is replaced under it before it gives up.
constexpr int kAttemptsMax = 3;
constexpr std::size_t kRangeBytes = 320;  // of one part's place in memory, about

// What of the object goes out.
struct Selection {
  int status = 200;
  ByteRange range;
  StoredChecksum checksum;           // of exactly these bytes; algorithm none if there is none
  std::uint32_t checksum_parts = 0;  // the "-N" of a composite checksum
  std::uint32_t part_count = 0;      // told only when a part was asked for
};

S3Error no_such_part(const ObjectRecord& record, std::uint32_t number) {
  S3Error error = s3_error(S3Code::InvalidPartNumber);
  error.details.emplace_back("ActualPartCount", std::to_string(std::max(record.part_count, 1u)));
  error.details.emplace_back("PartNumberRequested", std::to_string(number));
  return error;
}

Selection select_whole(const ObjectRecord& record) {
  Selection selection;
  selection.range = {0, record.size_bytes};
  if (!record.checksums.empty()) selection.checksum = record.checksums.front();
  selection.checksum_parts = record.part_count;
  return selection;
}

// 206 even for all the bytes, as clients expect of a part; an empty part has no Content-Range to
// show.
Selection as_partial(Selection selection) {
  selection.status = selection.range.length == 0 ? 200 : 206;
  return selection;
}

// What a record names and is not there was replaced meanwhile, or is lost: the object is there.
bool is_gone(const Error& error) { return error.code == Errc::not_found; }

// nullopt: the list of its parts is gone.
S3Task<std::optional<Selection>> select_part(Gateway& gateway, const S3Request& request,
                                             const ObjectRecord& record) {
  CO_TRY(number, part_number_of(request));
  if (record.part_count == 0) {  // a plain object is one part
    if (number != 1) co_return no_such_part(record, number);
    co_return as_partial(select_whole(record));
  }
  if (number > record.part_count) co_return no_such_part(record, number);
  CO_TRY(memory, co_await lease_document(gateway, request, record.part_count * kPartMemory));
  auto parts = co_await gateway.objects.parts(record, request.deadline);
  if (!parts && is_gone(parts.error())) co_return std::nullopt;
  if (!parts) co_return to_s3(parts.error());
  if (parts->size() < number) co_return s3_error(S3Code::InternalError);
  Selection selection;
  for (std::size_t i = 0; i + 1 < number; ++i) selection.range.first += (*parts)[i].size_bytes;
  const PartInfo& part = (*parts)[number - 1u];
  selection.range.length = part.size_bytes;
  selection.checksum = part.checksum;
  // The part's own value, under the type that the whole object has.
  if (!record.checksums.empty()) selection.checksum.type = record.checksums.front().type;
  selection.part_count = record.part_count;
  co_return as_partial(std::move(selection));
}

// Everything but parts, which may need another read.
S3Result<Selection> select_range(const S3Request& request, const ObjectRecord& record) {
  const std::string* header = request.header("range");
  if (header == nullptr || !range_still_valid(request, record.etag, record.modified)) {
    return select_whole(record);
  }
  const RangeAnswer answer = parse_range(*header, record.size_bytes);
  if (answer.kind == RangeKind::whole) return select_whole(record);
  if (answer.kind == RangeKind::unsatisfied) {
    return range_not_satisfiable(*header, record.size_bytes);
  }
  Selection selection;  // without a checksum: clients would hold it against the bytes of the range
  selection.status = 206;
  selection.range = answer.range;
  return selection;
}

S3Result<> check_conditions(const S3Request& request, const ObjectRecord& record) {
  const ReadDecision decision = check_read(request, {}, record.etag, record.modified);
  if (decision.verdict == ReadVerdict::serve) return {};
  if (decision.verdict == ReadVerdict::failed) return precondition_failed(decision.header);
  S3Error error = s3_error(S3Code::NotModified);
  error.headers.emplace_back("ETag", in_quotes(record.etag));
  error.headers.emplace_back("Last-Modified", http_date(record.modified));
  return error;
}

// response-content-type and its kin replace what is stored.
S3Result<> apply_overrides(const S3Request& request, StoredHeaders& headers) {
  constexpr std::string_view kPrefix = "response-";
  constexpr std::array<std::string_view, 6> kNames{
      "content-type",  "content-language",    "expires",
      "cache-control", "content-disposition", "content-encoding"};
  for (const auto& [name, value] : request.query) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view header = std::string_view(name).substr(kPrefix.size());
    if (std::find(kNames.begin(), kNames.end(), header) == kNames.end()) {
      return s3_error(S3Code::InvalidArgument, name + " overrides no header of the answer");
    }
    if (!http_text::is_field_value(value)) {
      return s3_error(S3Code::InvalidArgument, "Header value cannot be represented");
    }
    headers[std::string(header)] = value;
  }
  return {};
}

S3Result<S3Response> make_response(const S3Request& request, ObjectRecord& record,
                                   const Selection& selection) {
  CHECK_OK(apply_overrides(request, record.headers));
  S3Response response;
  response.status = selection.status;
  response.content_length = selection.range.length;
  response.headers.reserve(8 + record.headers.size());
  set_stored_headers(response, record.headers);
  response.set("ETag", in_quotes(record.etag));
  response.set("Last-Modified", http_date(record.modified));
  response.set("Accept-Ranges", "bytes");
  if (selection.status == 206) {
    response.set("Content-Range", content_range(selection.range, record.size_bytes));
  }
  if (selection.part_count > 0) {
    response.set("x-amz-mp-parts-count", std::to_string(selection.part_count));
  }
  if (wants_checksum(request)) {
    set_checksum(response, selection.checksum, selection.checksum_parts);
  }
  return response;
}

S3Task<ObjectRead> read_record(Gateway& gateway, const S3Request& request, const Bucket& bucket,
                               bool with_inline) {
  auto read = co_await gateway.objects.get(bucket, request.key, with_inline, request.deadline);
  if (!read) co_return to_s3(read.error(), S3Code::NoSuchKey);
  co_return std::move(*read);
}

// nullopt: the list of its parts is gone.
S3Task<std::optional<std::vector<BlobRange>>> find_ranges(Gateway& gateway,
                                                          const S3Request& request,
                                                          const ObjectRecord& record,
                                                          ByteRange range) {
  auto found = co_await gateway.objects.ranges(record, range.first, range.length, request.deadline);
  if (!found && is_gone(found.error())) co_return std::nullopt;
  if (!found) co_return to_s3(found.error());
  co_return std::move(*found);
}

// Until the first bytes are there.
Task<> start_body(Gateway& gateway, const S3Request& request, ObjectBody& body) {
  const PhaseTimer timer(request.times, gateway.clock, Phase::data);
  co_return co_await body.start();
}

// One attempt. nullopt: its bytes, or the list of its parts, were gone, as after a replacement.
S3Task<std::optional<S3Response>> serve(Gateway& gateway, const S3Request& request,
                                        ObjectRead read) {
  ObjectRecord& record = read.record;
  CO_CHECK(check_conditions(request, record));
  Selection selection;
  if (request.has_query("partNumber")) {
    CO_TRY(part, co_await select_part(gateway, request, record));
    if (!part) co_return std::nullopt;
    selection = std::move(*part);
  } else {
    CO_TRY(range, select_range(request, record));
    selection = std::move(range);
  }
  CO_TRY(response, make_response(request, record, selection));
  if (request.method == "HEAD") co_return std::move(response);
  const ByteRange range = selection.range;
  if (range.length == 0) {
    response.body = std::string();
  } else if (read.inline_bytes) {
    response.body = read.inline_bytes->substr(range.first, range.length);
  } else {
    auto ranges = Objects::ranges_now(record, range.first, range.length);
    if (!ranges) {
      CO_TRY(found, co_await find_ranges(gateway, request, record, range));
      if (!found) co_return std::nullopt;
      ranges = std::move(found);
    }
    if (ranges->size() > limits::kPartsInRecordMax) {
      // The list of a long object's parts stays until its last byte is sent.
      CO_TRY(memory, co_await take_memory(gateway, request, MemoryUse::reads,
                                          ranges->size() * kRangeBytes));
      response.memory = std::move(memory);
    }
    auto body =
        std::make_unique<ObjectBody>(gateway, request, std::move(*ranges), request.file_pieces);
    const auto started = co_await start_body(gateway, request, *body);
    if (!started && is_gone(started.error())) co_return std::nullopt;
    if (!started) co_return to_s3(started.error());
    response.body = std::move(body);
  }
  co_return std::move(response);
}

}  // namespace

S3Task<S3Response> get_object(Gateway& gateway, const S3Request& request) {
  CO_CHECK(check_object_read_headers(request));
  if (request.has_query("partNumber") && request.header("range") != nullptr) {
    co_return s3_error(S3Code::InvalidRequest,
                       "Cannot specify both Range header and partNumber query parameter");
  }
  auto opened = open_bucket_now(gateway, request);
  if (!opened) opened = co_await open_bucket(gateway, request);
  if (!*opened) co_return std::move(*opened).error();
  const BucketPtr bucket = std::move(**opened);

  const bool with_inline = request.method != "HEAD";
  OpId seen;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    ObjectRead read;
    auto now =
        attempt == 0 ? gateway.objects.get_now(*bucket, request.key, with_inline) : std::nullopt;
    if (now && !*now) co_return to_s3(now->error(), S3Code::NoSuchKey);
    if (now) {
      read = std::move(**now);
    } else {
      CO_TRY(found, co_await read_record(gateway, request, *bucket, with_inline));
      read = std::move(found);
    }
    if (attempt > 0 && read.op_id == seen) {  // not replaced: its bytes are lost
      co_return s3_error(S3Code::InternalError);
    }
    seen = read.op_id;
    CO_TRY(response, co_await serve(gateway, request, std::move(read)));
    if (response) co_return std::move(*response);
  }
  co_return s3_error(S3Code::SlowDown);  // replaced each time that it was read
}

}  // namespace penstock
