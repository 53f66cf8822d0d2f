// The encodings that records are made of, where their bytes are not what a writer of ours makes.
#include <doctest/doctest.h>

#include "server/cluster/record_encoding.h"

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
    RegisterValue value = to_value(ObjectRecord{}, 0);
    FieldWriter more;
    more.bytes(record::object_tag::kHeader, header_field("b", "1"));
    more.bytes(record::object_tag::kHeader, header_field(second, "2"));
    value.payload += more.result();
    CHECK(object_record(value).has_value() == (second[0] == 'c'));
    RegisterValue upload = to_value(UploadRecord{}, ValueKind::upload_open);
    upload.payload += more.result();
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

}  // namespace penstock
