// Encodings that records are made of: blobs, parts, manifest pages, checksums, headers.
#include "server/records/record_encoding.h"

namespace penstock {
namespace record {
namespace {
constexpr std::size_t kLocationBytes = 16;
constexpr std::size_t kChecksumBytesMax = 64;

void put64(std::string& out, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
std::uint64_t get64(std::string_view bytes, std::size_t offset) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  }
  return value;
}

std::optional<std::vector<Location>> take_locations(std::string_view bytes) {
  const std::size_t count = bytes.size() / kLocationBytes;
  if (bytes.size() % kLocationBytes != 0) return std::nullopt;
  if (count > limits::kFragmentsPerStripeMax) return std::nullopt;
  std::vector<Location> locations(count);
  for (std::size_t i = 0; i < count; ++i) {
    locations[i].volume.value = get64(bytes, i * kLocationBytes);
    locations[i].generation.value = get64(bytes, i * kLocationBytes + 8);
  }
  return locations;
}

// What Layout::make would accept.
bool fits(const BlobRef& blob) {
  const BlobShape& shape = blob.shape;
  return shape.k >= 1 && blob.locations.size() == shape.slots() && shape.unit_bytes > 0 &&
         shape.unit_bytes % limits::kBlockBytes == 0;
}
}  // namespace

std::string encode_blob(const BlobRef& blob, bool with_write_id) {
  FieldWriter out;
  out.reserve(64 + blob.locations.size() * kLocationBytes + blob.kept.size());
  if (with_write_id) out.id(blob_tag::kWriteId, blob.write_id);
  out.number(blob_tag::kK, blob.shape.k);
  out.number(blob_tag::kM, blob.shape.m);
  out.number(blob_tag::kUnitBytes, blob.shape.unit_bytes);
  out.number(blob_tag::kSizeBytes, blob.shape.size_bytes);
  std::string locations;
  locations.reserve(blob.locations.size() * kLocationBytes);
  for (const Location& location : blob.locations) {
    put64(locations, location.volume.value);
    put64(locations, location.generation.value);
  }
  out.bytes(blob_tag::kLocations, locations);
  out.number(blob_tag::kManifestPage, blob.manifest_page ? 1 : 0);
  out.kept(blob.kept);
  return out.take();
}

std::optional<BlobRef> decode_blob(std::string_view fields) {
  FieldReader in(fields);
  BlobRef blob;
  blob.shape = BlobShape{0, 0, 0, 0};
  const auto slots = [&in] {
    return static_cast<std::uint32_t>(in.number(limits::kFragmentsPerStripeMax));
  };
  while (in.next()) {
    switch (in.tag()) {
      case blob_tag::kWriteId:
        blob.write_id = in.id<WriteId>();
        break;
      case blob_tag::kK:
        blob.shape.k = slots();
        break;
      case blob_tag::kM:
        blob.shape.m = slots();
        break;
      case blob_tag::kUnitBytes:
        blob.shape.unit_bytes = in.number(limits::kPutBytesMax);
        break;
      case blob_tag::kSizeBytes:
        blob.shape.size_bytes = in.number(limits::kPutBytesMax);
        break;
      case blob_tag::kLocations:
        store(in, take_locations(in.bytes()), blob.locations);
        break;
      case blob_tag::kManifestPage:
        blob.manifest_page = in.number(1) == 1;
        break;
      default:
        in.unknown();
    }
  }
  if (in.failed() || !fits(blob)) return std::nullopt;
  blob.kept = in.kept();
  return blob;
}

std::string encode_checksum(const StoredChecksum& checksum) {
  std::string out;
  out.push_back(static_cast<char>(checksum.algorithm));
  out.push_back(static_cast<char>(checksum.type));
  return out += checksum.raw;
}

std::optional<StoredChecksum> decode_checksum(std::string_view field) {
  if (field.size() < 2 || field.size() > 2 + kChecksumBytesMax) return std::nullopt;
  StoredChecksum checksum;
  checksum.algorithm = static_cast<ChecksumAlgorithm>(field[0]);
  checksum.type = static_cast<ChecksumType>(field[1]);
  if (checksum.algorithm > ChecksumAlgorithm::sha256 || checksum.type > ChecksumType::composite) {
    return std::nullopt;
  }
  checksum.raw = field.substr(2);
  return checksum;
}

std::string encode_part(const PartInfo& part) {
  FieldWriter out;
  out.reserve(256 + part.inline_data.size());
  out.number(part_tag::kNumber, part.number);
  out.number(part_tag::kSizeBytes, part.size_bytes);
  if (part.md5 != decltype(part.md5){}) {
    out.bytes(part_tag::kMd5, as_text(std::as_bytes(std::span(part.md5))));
  }
  if (part.checksum != StoredChecksum{}) {
    out.bytes(part_tag::kChecksum, encode_checksum(part.checksum));
  }
  out.time(part_tag::kModified, part.modified);
  out.text(part_tag::kInlineData, part.inline_data);
  if (part.blob) out.bytes(part_tag::kBlob, encode_blob(*part.blob, true));
  out.kept(part.kept);
  return out.take();
}

std::optional<PartInfo> decode_part(std::string_view fields) {
  FieldReader in(fields);
  PartInfo part;
  while (in.next()) {
    switch (in.tag()) {
      case part_tag::kNumber:
        part.number = static_cast<std::uint16_t>(in.number(limits::kPartsMax));
        break;
      case part_tag::kSizeBytes:
        part.size_bytes = in.number(limits::kPutBytesMax);
        break;
      case part_tag::kMd5:
        if (in.bytes().size() == part.md5.size()) {
          std::memcpy(part.md5.data(), in.bytes().data(), part.md5.size());
        } else {
          in.fail();
        }
        break;
      case part_tag::kChecksum:
        store(in, decode_checksum(in.bytes()), part.checksum);
        break;
      case part_tag::kModified:
        part.modified = in.time();
        break;
      case part_tag::kInlineData:
        part.inline_data = in.text();
        break;
      case part_tag::kBlob:
        store(in, decode_blob(in.bytes()), part.blob);
        break;
      default:
        in.unknown();
    }
  }
  if (in.failed()) return std::nullopt;
  part.kept = in.kept();
  return part;
}

std::string encode_page(const ManifestPage& page) {
  FieldWriter out;
  out.bytes(page_tag::kBlob, encode_blob(page.blob, true));
  out.number(page_tag::kFirstOffset, page.first_offset);
  out.number(page_tag::kFirstPart, page.first_part_index);
  out.number(page_tag::kEntries, page.entries);
  out.kept(page.kept);
  return out.take();
}

std::optional<ManifestPage> decode_page(std::string_view fields) {
  FieldReader in(fields);
  ManifestPage page;
  bool has_blob = false;
  while (in.next()) {
    switch (in.tag()) {
      case page_tag::kBlob:
        store(in, decode_blob(in.bytes()), page.blob);
        has_blob = true;
        break;
      case page_tag::kFirstOffset:
        page.first_offset = in.number(limits::kObjectBytesMax);
        break;
      case page_tag::kFirstPart:
        page.first_part_index = static_cast<std::uint16_t>(in.number(limits::kPartsMax));
        break;
      case page_tag::kEntries:
        page.entries = static_cast<std::uint16_t>(in.number(limits::kManifestPageEntries));
        break;
      default:
        in.unknown();
    }
  }
  if (in.failed() || !has_blob) return std::nullopt;
  page.kept = in.kept();
  return page;
}

void put_headers(FieldWriter& out, std::uint8_t tag, const Headers& headers) {
  for (const auto& [name, text] : headers) {
    std::string field;
    put_length(field, name.size());
    field += name;
    field += text;
    out.bytes(tag, field);
  }
}

bool take_header(Headers& headers, std::string_view field) {
  std::string_view name;
  if (!cut_text(field, name)) return false;
  if (!headers.empty() && headers.rbegin()->first >= name) return false;
  headers.emplace_hint(headers.end(), name, field);
  return true;
}

}  // namespace record

std::string encode_manifest_page(const std::vector<PartInfo>& parts) {
  FieldWriter out(true);
  out.reserve(16 + parts.size() * 256);
  for (const PartInfo& part : parts) out.bytes(record::page_tag::kPart, record::encode_part(part));
  return out.take();
}

Result<std::vector<PartInfo>> decode_manifest_page(std::string_view bytes) {
  FieldReader in = FieldReader::of_record(bytes);
  std::vector<PartInfo> parts;
  while (in.next()) {
    if (in.tag() != record::page_tag::kPart)
      in.unknown();
    else if (parts.size() == limits::kManifestPageEntries)
      in.fail();
    else
      record::append(in, record::decode_part(in.bytes()), parts);
  }
  if (in.failed()) return fail(Errc::corrupt, "malformed manifest page");
  return parts;
}

std::string encode_locations(const BlobRef& blob) {
  std::string out(1, static_cast<char>(kRecordVersion));
  return out += record::encode_blob(blob, false);
}

Result<BlobRef> decode_locations(WriteId write_id, std::string_view bytes) {
  const bool known = !bytes.empty() && static_cast<std::uint8_t>(bytes[0]) == kRecordVersion;
  auto blob = known ? record::decode_blob(bytes.substr(1)) : std::nullopt;
  if (!blob || !blob->write_id.is_zero()) {
    return fail(Errc::corrupt, "malformed locations of a blob");
  }
  blob->write_id = write_id;
  return std::move(*blob);
}

}  // namespace penstock
