// The encodings that records are made of, where their bytes are not what a writer of ours makes.
#include <doctest/doctest.h>

#include "server/records/record_encoding.h"

namespace penstock {
namespace {

const std::string kRequiredOfLater("\x3f\x01x", 3);
const std::string kOptionalOfLater("\x8f\x01x", 3);

BlobRef three_slots() {
  BlobRef blob;
  blob.write_id = WriteId{1, 2};
  blob.shape = BlobShape{1, 2, 1 << 20, 100};
  blob.locations.assign(3, Location{VolumeId{1}, Generation{2}});
  return blob;
}

ManifestPage second_page() {
  ManifestPage page;
  page.blob = three_slots();
  page.first_offset = 123;
  page.first_part_index = limits::kManifestPageEntries;
  page.entries = 7;
  return page;
}

std::string header_field(std::string_view name, std::string_view text) {
  std::string field;
  put_length(field, name.size());
  return field.append(name).append(text);
}
}  // namespace

TEST_CASE("a page in a record says where its parts lie, and keeps what a later version added") {
  ManifestPage page = second_page();
  page.kept = kOptionalOfLater;
  const auto decoded = record::decode_page(record::encode_page(page));
  REQUIRE(decoded);
  CHECK(decoded->blob == page.blob);
  CHECK(decoded->first_offset == 123);
  CHECK(decoded->first_part_index == limits::kManifestPageEntries);
  CHECK(decoded->entries == 7);
  CHECK(decoded->kept == kOptionalOfLater);
}

TEST_CASE("a page without its blob, or with what must be understood, is refused") {
  const std::string fields = record::encode_page(second_page());
  CHECK(record::decode_page(fields));
  CHECK_FALSE(record::decode_page(fields + kRequiredOfLater));
  FieldWriter no_blob;
  no_blob.number(record::page_tag::kEntries, 7);
  CHECK_FALSE(record::decode_page(no_blob.result()));
}

TEST_CASE("a part or a blob with what must be understood is refused") {
  PartInfo part;
  part.number = 1;
  CHECK(record::decode_part(record::encode_part(part)));
  CHECK_FALSE(record::decode_part(record::encode_part(part) + kRequiredOfLater));
  const std::string blob = record::encode_blob(three_slots(), true);
  CHECK(record::decode_blob(blob));
  CHECK_FALSE(record::decode_blob(blob + kRequiredOfLater));
  const auto later = record::decode_blob(blob + kOptionalOfLater);
  REQUIRE(later);
  CHECK(later->kept == kOptionalOfLater);
  CHECK(record::encode_blob(*later, true) == blob + kOptionalOfLater);
}

TEST_CASE("locations that do not end at a location are refused") {
  for (const std::size_t bytes : {3 * 16 - 1, 3 * 16, 3 * 16 + 1}) {
    CAPTURE(bytes);
    FieldWriter out;
    out.number(record::blob_tag::kK, 1);
    out.number(record::blob_tag::kM, 2);
    out.number(record::blob_tag::kUnitBytes, 1 << 20);
    out.bytes(record::blob_tag::kLocations, std::string(bytes, '\1'));
    CHECK(record::decode_blob(out.result()).has_value() == (bytes == 3 * 16));
  }
}

TEST_CASE("headers come in order, each once and whole") {
  record::Headers headers;
  CHECK_FALSE(record::take_header(headers, ""));
  CHECK_FALSE(record::take_header(headers, "\x05name"));
  CHECK(headers.empty());
  CHECK(record::take_header(headers, header_field("b", "1")));
  CHECK_FALSE(record::take_header(headers, header_field("a", "2")));
  CHECK_FALSE(record::take_header(headers, header_field("b", "2")));
  CHECK(headers == record::Headers{{"b", "1"}});

  for (const char* second : {"a", "b", "c"}) {
    CAPTURE(second);
    const auto two_headers = [second](std::uint8_t tag) {
      FieldWriter out;
      out.bytes(tag, header_field("b", "1"));
      out.bytes(tag, header_field(second, "2"));
      return out.take();
    };
    RegisterValue value = to_value(ObjectRecord{}, 0);
    value.payload += two_headers(record::object_tag::kHeader);
    CHECK(object_record(value).has_value() == (second[0] == 'c'));
    RegisterValue upload = to_value(UploadRecord{}, ValueKind::upload_open);
    upload.payload += two_headers(record::upload_tag::kHeader);
    CHECK(upload_record(upload).has_value() == (second[0] == 'c'));
  }
}

TEST_CASE("an ETag of more parts than there can be is refused") {
  for (const std::uint32_t parts : {0u, 1u, 10'000u, 10'001u, 65'535u}) {
    CAPTURE(parts);
    FieldWriter out(true);
    std::string packed(16, 'd');
    packed.push_back(static_cast<char>(parts));
    packed.push_back(static_cast<char>(parts >> 8));
    out.bytes(record::summary_tag::kEtagDigest, packed);
    CHECK(object_summary(out.result()).has_value() == (parts >= 1 && parts <= limits::kPartsMax));
  }
}

TEST_CASE("a value is not read as a record of another kind, though its bytes would fit") {
  BucketRecord bucket;
  bucket.partitions = 1;
  RegisterValue value = to_value(bucket);
  CHECK(bucket_record(value));
  value.kind = ValueKind::object;
  CHECK(bucket_record(value).error().code == Errc::corrupt);
  value = to_value(PartInfo{});
  CHECK(part_info(value));
  value.kind = ValueKind::object;
  CHECK(part_info(value).error().code == Errc::corrupt);
  value = to_value(ObjectRecord{}, 0);
  CHECK(object_record(value));
  value.kind = ValueKind::delete_marker;
  CHECK(object_record(value).error().code == Errc::corrupt);
  value = to_value(UploadRecord{}, ValueKind::upload_open);
  for (const ValueKind kind : {ValueKind::bucket, ValueKind::part}) {
    value.kind = kind;
    CHECK(upload_record(value).error().code == Errc::corrupt);
  }
}

TEST_CASE("a bucket with what must be understood, or without partitions, is refused") {
  BucketRecord bucket;
  bucket.partitions = 64;
  RegisterValue value = to_value(bucket);
  CHECK(bucket_record(value));
  value.summary += kRequiredOfLater;
  CHECK(bucket_record(value).error().code == Errc::corrupt);
  for (const std::uint32_t partitions : {0u, 65u}) {
    bucket.partitions = partitions;
    CHECK(bucket_record(to_value(bucket)).error().code == Errc::corrupt);
  }
}

TEST_CASE("a checksum is of an algorithm and a type that are known, and of some length") {
  constexpr auto kLast = static_cast<unsigned>(ChecksumAlgorithm::sha256);
  for (unsigned algorithm = 0; algorithm <= kLast + 1; ++algorithm) {
    for (unsigned type = 0; type <= 2; ++type) {
      CAPTURE(algorithm);
      CAPTURE(type);
      std::string field{static_cast<char>(algorithm), static_cast<char>(type)};
      field += "raw";
      const auto checksum = record::decode_checksum(field);
      REQUIRE(checksum.has_value() == (algorithm <= kLast && type <= 1));
      if (checksum) CHECK(record::encode_checksum(*checksum) == field);
    }
  }
  CHECK_FALSE(record::decode_checksum(""));
  CHECK_FALSE(record::decode_checksum(std::string(1, '\0')));
  CHECK(record::decode_checksum(std::string(2 + 64, '\0')));
  CHECK_FALSE(record::decode_checksum(std::string(2 + 65, '\0')));
}

TEST_CASE("a blob without data slots, without a unit, or without saying so, is refused") {
  struct Row {
    const char* what;
    std::uint64_t k, m, unit_bytes;
    std::size_t locations;
    bool fits;
  };
  const Row rows[] = {{"as it is written", 1, 2, 1 << 20, 3, true},
                      {"no data slots", 0, 2, 1 << 20, 2, false},
                      {"no unit", 1, 2, 0, 3, false},
                      {"half a block", 1, 2, limits::kBlockBytes / 2, 3, false},
                      {"no locations", 1, 2, 1 << 20, 0, false},
                      {"nothing but a location", 0, 0, 0, 1, false}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    FieldWriter out;  // leaves zeros out
    out.number(record::blob_tag::kK, row.k);
    out.number(record::blob_tag::kM, row.m);
    out.number(record::blob_tag::kUnitBytes, row.unit_bytes);
    out.bytes(record::blob_tag::kLocations, std::string(row.locations * 16, '\1'));
    CHECK(record::decode_blob(out.result()).has_value() == row.fits);
  }
}

TEST_CASE("an MD5 of another length is refused") {
  for (const std::size_t bytes : {0, 15, 16, 17}) {
    CAPTURE(bytes);
    FieldWriter out;
    out.bytes(record::part_tag::kMd5, std::string(bytes, 'x'));
    CHECK(record::decode_part(out.result()).has_value() == (bytes == 16));
  }
}

TEST_CASE("texts of all lengths around the long form of a length survive") {
  for (const std::size_t length : {0, 1, 253, 254, 255, 256, 257, 65'535, 65'536}) {
    CAPTURE(length);
    const std::string text(length, 't');
    std::string field;
    put_length(field, length);
    field += text + "rest";
    std::string_view rest = field, cut;
    REQUIRE(cut_text(rest, cut));
    CHECK(cut == text);
    CHECK(rest == "rest");
    ObjectRecord record;
    record.owner = text;
    CHECK(object_record(to_value(record, 0)).value().owner == text);
  }
}

TEST_CASE("locations of a blob do not name it: whoever has them knows the name") {
  const BlobRef blob = three_slots();
  CHECK(decode_locations(blob.write_id, encode_locations(blob)).value() == blob);
  const std::string named = encode_locations(blob).substr(0, 1) + record::encode_blob(blob, true);
  CHECK(decode_locations(blob.write_id, named).error().code == Errc::corrupt);
}

TEST_CASE("half of the target of an upload is refused") {
  FieldWriter summary_alone(true);
  summary_alone.bytes(record::upload_tag::kTargetSummary,
                      record::encode_object_summary(ObjectRecord{}));
  RegisterValue value = to_value(UploadRecord{}, ValueKind::upload_completing);
  value.payload = summary_alone.result();
  CHECK(upload_record(value).error().code == Errc::corrupt);
  FieldWriter payload_alone(true);
  payload_alone.bytes(record::upload_tag::kTargetPayload,
                      record::encode_object_payload(ObjectRecord{}));
  value.payload = payload_alone.result();
  CHECK(upload_record(value).error().code == Errc::corrupt);
}

}  // namespace penstock
