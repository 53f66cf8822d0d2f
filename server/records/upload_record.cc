// Records of uploads, parts and buckets.
#include "server/records/record_encoding.h"

namespace penstock {
namespace {
using namespace record;

bool is_upload_kind(ValueKind kind) {
  return kind >= ValueKind::upload_open && kind <= ValueKind::upload_aborted;
}

bool decode_upload_summary(std::string_view summary, UploadRecord& record) {
  FieldReader in = FieldReader::of_record(summary);
  record.checksum_type = ChecksumType::full_object;
  while (in.next()) {
    switch (in.tag()) {
      case upload_summary_tag::kOwner:
        record.owner = in.text();
        break;
      case upload_summary_tag::kInitiated:
        record.initiated = in.time();
        break;
      case upload_summary_tag::kChecksumAlgorithm:
        record.checksum_algorithm = checksum_algorithm(in);
        break;
      case upload_summary_tag::kChecksumType:
        record.checksum_type = checksum_type(in);
        break;
      default:
        in.unknown();
    }
  }
  record.kept_summary = in.kept();
  return !in.failed();
}

bool decode_upload_payload(std::string_view payload, UploadRecord& record) {
  FieldReader in = FieldReader::of_record(payload);
  std::string_view target_summary;
  while (in.next()) {
    switch (in.tag()) {
      case upload_tag::kAttempt:
        record.attempt = in.id<OpId>();
        break;
      case upload_tag::kObjectSeen:
        record.object_seen = in.id<OpId>();
        break;
      case upload_tag::kTargetSummary:
        target_summary = in.bytes();
        break;
      case upload_tag::kTargetPayload:
        store(in, decode_object(target_summary, in.bytes()), record.target);
        break;
      case upload_tag::kIfMatch:
        record.if_match = in.text();
        break;
      case upload_tag::kIfNoneMatch:
        record.if_none_match = in.text();
        break;
      case upload_tag::kEtag:
        record.etag = in.text();
        break;
      case upload_tag::kCompleteDigest:
        record.complete_digest = in.text();
        break;
      case upload_tag::kHeader:
        if (!take_header(record.headers, in.bytes())) in.fail();
        break;
      default:
        in.unknown();
    }
  }
  record.kept_payload = in.kept();
  return !in.failed() && (target_summary.empty() || record.target.has_value());
}
}  // namespace

RegisterValue to_value(const UploadRecord& record, ValueKind state) {
  RegisterValue value;
  value.kind = state;
  FieldWriter summary(true);
  summary.text(upload_summary_tag::kOwner, record.owner);
  summary.time(upload_summary_tag::kInitiated, record.initiated);
  summary.number(upload_summary_tag::kChecksumAlgorithm,
                 static_cast<std::uint64_t>(record.checksum_algorithm));
  summary.number(upload_summary_tag::kChecksumType,
                 static_cast<std::uint64_t>(record.checksum_type));
  summary.kept(record.kept_summary);
  value.summary = summary.take();

  FieldWriter payload(true);
  payload.id(upload_tag::kAttempt, record.attempt);
  payload.id(upload_tag::kObjectSeen, record.object_seen);
  if (record.target) {
    payload.bytes(upload_tag::kTargetSummary, encode_object_summary(*record.target));
    payload.bytes(upload_tag::kTargetPayload, encode_object_payload(*record.target));
  }
  payload.text(upload_tag::kIfMatch, record.if_match);
  payload.text(upload_tag::kIfNoneMatch, record.if_none_match);
  payload.text(upload_tag::kEtag, record.etag);
  payload.text(upload_tag::kCompleteDigest, record.complete_digest);
  put_headers(payload, upload_tag::kHeader, record.headers);
  payload.kept(record.kept_payload);
  value.payload = payload.take();
  return value;
}

Result<UploadRecord> upload_summary(std::string_view summary) {
  UploadRecord record;
  if (!decode_upload_summary(summary, record)) {
    return fail(Errc::corrupt, "malformed summary of an upload");
  }
  return record;
}

Result<UploadRecord> upload_record(const RegisterValue& value) {
  if (!is_upload_kind(value.kind)) return fail(Errc::corrupt, "not the record of an upload");
  UploadRecord record;
  const bool fits =
      decode_upload_summary(value.summary, record) && decode_upload_payload(value.payload, record);
  if (!fits) {
    return fail(Errc::corrupt, "malformed record of an upload");
  }
  return record;
}

RegisterValue to_value(const PartInfo& part) {
  RegisterValue value;
  value.kind = ValueKind::part;
  value.payload.push_back(static_cast<char>(kRecordVersion));
  value.payload += encode_part(part);
  return value;
}

Result<PartInfo> part_info(const RegisterValue& value) {
  if (value.kind != ValueKind::part) return fail(Errc::corrupt, "not the record of a part");
  const std::string_view payload = value.payload;
  const bool known = !payload.empty() && static_cast<std::uint8_t>(payload[0]) == kRecordVersion;
  auto part = known ? decode_part(payload.substr(1)) : std::nullopt;
  if (!part) return fail(Errc::corrupt, "malformed record of a part");
  return std::move(*part);
}

RegisterValue to_value(const BucketRecord& record) {
  RegisterValue value;
  value.kind = ValueKind::bucket;
  FieldWriter out(true);
  out.number(bucket_tag::kId, record.id.value);
  out.number(bucket_tag::kNumber, record.number.value);
  out.number(bucket_tag::kState, static_cast<std::uint64_t>(record.state));
  out.number(bucket_tag::kPartitions, record.partitions);
  out.text(bucket_tag::kOwner, record.owner);
  out.time(bucket_tag::kCreated, record.created);
  out.text(bucket_tag::kRegion, record.region);
  out.kept(record.kept);
  value.summary = out.take();
  return value;
}

Result<BucketRecord> bucket_summary(std::string_view summary) {
  constexpr std::uint64_t kPartitionsMax = 64;  // bits of ScanRequest::partition_mask
  FieldReader in = FieldReader::of_record(summary);
  BucketRecord record;
  record.partitions = 0;
  while (in.next()) {
    switch (in.tag()) {
      case bucket_tag::kId:
        record.id.value = in.number();
        break;
      case bucket_tag::kNumber:
        record.number.value = in.number();
        break;
      case bucket_tag::kState:
        record.state =
            static_cast<BucketState>(in.number(static_cast<std::uint64_t>(BucketState::deleting)));
        break;
      case bucket_tag::kPartitions:
        record.partitions = static_cast<std::uint32_t>(in.number(kPartitionsMax));
        break;
      case bucket_tag::kOwner:
        record.owner = in.text();
        break;
      case bucket_tag::kCreated:
        record.created = in.time();
        break;
      case bucket_tag::kRegion:
        record.region = in.text();
        break;
      default:
        in.unknown();
    }
  }
  if (in.failed() || record.partitions == 0) {
    return fail(Errc::corrupt, "malformed record of a bucket");
  }
  record.kept = in.kept();
  return record;
}

Result<BucketRecord> bucket_record(const RegisterValue& value) {
  if (value.kind != ValueKind::bucket) return fail(Errc::corrupt, "not the record of a bucket");
  return bucket_summary(value.summary);
}

}  // namespace penstock
