#include "server/records/object_record.h"

#include <charconv>

#include "server/records/record_encoding.h"

namespace penstock {
namespace {
using namespace record;

constexpr std::size_t kHexDigits = 32;
constexpr std::size_t kDigestBytes = 16;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The MD5 form of an ETag in 16 bytes, with "-N" in two more; empty if the text is not exactly of
// that form.
std::string pack_etag(std::string_view etag) {
  std::string packed;
  if (etag.size() < kHexDigits) return packed;
  for (std::size_t i = 0; i < kHexDigits; i += 2) {
    const int high = hex_digit(etag[i]);
    const int low = hex_digit(etag[i + 1]);
    if (high < 0 || low < 0) return {};
    packed.push_back(static_cast<char>(high << 4 | low));
  }
  if (etag.size() == kHexDigits) return packed;
  std::uint16_t parts = 0;
  const char* end = etag.data() + etag.size();
  const auto [stop, error] = std::from_chars(etag.data() + kHexDigits + 1, end, parts);
  const bool exact = etag[kHexDigits] == '-' && error == std::errc() && stop == end &&
                     etag[kHexDigits + 1] != '0' && parts <= limits::kPartsMax;
  if (!exact) return {};
  packed.push_back(static_cast<char>(parts));
  packed.push_back(static_cast<char>(parts >> 8));
  return packed;
}

std::optional<std::string> unpack_etag(std::string_view packed) {
  if (packed.size() != kDigestBytes && packed.size() != kDigestBytes + 2) return std::nullopt;
  static constexpr char kHex[] = "0123456789abcdef";
  char text[kHexDigits + 6];
  for (std::size_t i = 0; i < kDigestBytes; ++i) {
    const auto byte = static_cast<unsigned char>(packed[i]);
    text[2 * i] = kHex[byte >> 4];
    text[2 * i + 1] = kHex[byte & 15];
  }
  char* end = text + kHexDigits;
  if (packed.size() > kDigestBytes) {
    const unsigned low = static_cast<unsigned char>(packed[kDigestBytes]);
    const unsigned high = static_cast<unsigned char>(packed[kDigestBytes + 1]);
    const unsigned parts = high << 8 | low;
    if (parts == 0 || parts > limits::kPartsMax) return std::nullopt;
    *end = '-';
    end = std::to_chars(end + 1, text + sizeof text, parts).ptr;
  }
  return std::string(text, end);
}

// What the summary says and where its fields of later versions lie.
struct SummaryFields {
  ObjectSummary summary;
  std::string_view kept;
};
std::optional<SummaryFields> decode_summary(std::string_view bytes) {
  FieldReader in = FieldReader::of_record(bytes);
  SummaryFields fields;
  ObjectSummary& summary = fields.summary;
  while (in.next()) {
    switch (in.tag()) {
      case summary_tag::kSizeBytes:
        summary.size_bytes = in.number();
        break;
      case summary_tag::kEtagDigest:
        store(in, unpack_etag(in.bytes()), summary.etag);
        break;
      case summary_tag::kEtagText:
        summary.etag = in.text();
        break;
      case summary_tag::kModified:
        summary.modified = in.time();
        break;
      case summary_tag::kOwner:
        summary.owner = in.text();
        break;
      case summary_tag::kChecksumAlgorithm:
        summary.checksum_algorithm = checksum_algorithm(in);
        break;
      case summary_tag::kChecksumType:
        summary.checksum_type = checksum_type(in);
        break;
      default:
        in.unknown();
    }
  }
  if (in.failed()) return std::nullopt;
  fields.kept = in.kept();
  return fields;
}

void decode_payload(FieldReader& in, ObjectRecord& record) {
  while (in.next()) {
    switch (in.tag()) {
      case object_tag::kPartCount:
        record.part_count = static_cast<std::uint32_t>(in.number(limits::kPartsMax));
        break;
      case object_tag::kUploadId:
        record.upload_id = in.text();
        break;
      case object_tag::kAttempt:
        record.attempt = in.text();
        break;
      case object_tag::kChecksum:
        append(in, decode_checksum(in.bytes()), record.checksums);
        break;
      case object_tag::kHeader:
        if (!take_header(record.headers, in.bytes())) in.fail();
        break;
      case object_tag::kPart:
        append(in, decode_part(in.bytes()), record.parts);
        break;
      case object_tag::kPage:
        append(in, decode_page(in.bytes()), record.manifest);
        break;
      default:
        in.unknown();
    }
  }
  record.kept_payload = in.kept();
}

void append_blobs(const ObjectRecord& record, bool parts, std::vector<BlobRef>& blobs) {
  if (parts) {
    for (const PartInfo& part : record.parts) {
      if (part.blob) blobs.push_back(*part.blob);
    }
  }
  for (const ManifestPage& page : record.manifest) blobs.push_back(page.blob);
}
}  // namespace

namespace record {
std::string encode_object_summary(const ObjectRecord& record) {
  FieldWriter out(true);
  out.reserve(96);
  out.number(summary_tag::kSizeBytes, record.size_bytes);
  const std::string packed = pack_etag(record.etag);
  out.text(summary_tag::kEtagDigest, packed);
  if (packed.empty()) out.text(summary_tag::kEtagText, record.etag);
  out.time(summary_tag::kModified, record.modified);
  out.text(summary_tag::kOwner, record.owner);
  if (!record.checksums.empty()) {
    const StoredChecksum& first = record.checksums.front();
    out.number(summary_tag::kChecksumAlgorithm, static_cast<std::uint64_t>(first.algorithm));
    out.number(summary_tag::kChecksumType, static_cast<std::uint64_t>(first.type));
  }
  out.kept(record.kept_summary);
  return out.take();
}

std::string encode_object_payload(const ObjectRecord& record) {
  FieldWriter out(true);
  out.reserve(256 + record.parts.size() * 256);
  out.number(object_tag::kPartCount, record.part_count);
  out.text(object_tag::kUploadId, record.upload_id);
  out.text(object_tag::kAttempt, record.attempt);
  for (const auto& sum : record.checksums) out.bytes(object_tag::kChecksum, encode_checksum(sum));
  put_headers(out, object_tag::kHeader, record.headers);
  for (const auto& part : record.parts) out.bytes(object_tag::kPart, encode_part(part));
  for (const auto& page : record.manifest) out.bytes(object_tag::kPage, encode_page(page));
  out.kept(record.kept_payload);
  return out.take();
}

std::optional<ObjectRecord> decode_object(std::string_view summary, std::string_view payload) {
  auto head = decode_summary(summary);
  if (!head) return std::nullopt;
  ObjectRecord record;
  record.size_bytes = head->summary.size_bytes;
  record.etag = std::move(head->summary.etag);
  record.modified = head->summary.modified;
  record.owner = std::move(head->summary.owner);
  record.kept_summary = head->kept;
  FieldReader in = FieldReader::of_record(payload);
  decode_payload(in, record);
  if (in.failed()) return std::nullopt;
  return record;
}
}  // namespace record

RegisterValue to_value(const ObjectRecord& record, std::uint32_t inline_bytes) {
  RegisterValue value;
  value.kind = ValueKind::object;
  value.inline_bytes = inline_bytes;
  value.summary = encode_object_summary(record);
  value.payload = encode_object_payload(record);
  return value;
}

RegisterValue tombstone_value() {
  RegisterValue value;
  value.kind = ValueKind::tombstone;
  return value;
}

Result<ObjectRecord> object_record(const RegisterValue& value) {
  if (value.kind != ValueKind::object) return fail(Errc::corrupt, "not the record of an object");
  auto record = decode_object(value.summary, value.payload);
  if (!record) return fail(Errc::corrupt, "malformed record of an object");
  return std::move(*record);
}

Result<ObjectSummary> object_summary(std::string_view summary) {
  auto fields = decode_summary(summary);
  if (!fields) return fail(Errc::corrupt, "malformed summary of an object");
  return std::move(fields->summary);
}

Result<std::vector<BlobRef>> blobs_of(const RegisterValue& value) {
  std::vector<BlobRef> blobs;
  switch (value.kind) {
    case ValueKind::object: {
      TRY(record, object_record(value));
      append_blobs(record, true, blobs);
      break;
    }
    case ValueKind::part: {
      TRY(part, part_info(value));
      if (part.blob) blobs.push_back(std::move(*part.blob));
      break;
    }
    case ValueKind::upload_completing:
    case ValueKind::upload_reopening: {
      TRY(upload, upload_record(value));
      if (upload.target) append_blobs(*upload.target, false, blobs);
      break;
    }
    default:
      break;  // names no blob
  }
  return blobs;
}

}  // namespace penstock
