#include "server/records/object_record.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "server/records/record_fields.h"

namespace penstock {
namespace {

WallTime at_us(std::int64_t us) { return WallTime(Duration(us)); }

BlobRef sample_blob(std::uint64_t id, std::uint32_t k, std::uint32_t m) {
  BlobRef blob;
  blob.write_id = {id, id + 1};
  blob.shape = BlobShape{k, m, 2u << 20, 123'456'789};
  for (std::uint32_t slot = 0; slot < k + m; ++slot) {
    blob.locations.push_back(
        {VolumeId{0x1111'2222'3333'0000ull + slot}, Generation{id * 100 + slot}});
  }
  blob.locations.back() = Location{};  // a slot whose volume failed
  return blob;
}

PartInfo sample_part(std::uint16_t number) {
  PartInfo part;
  part.number = number;
  part.size_bytes = 5 << 20;
  part.md5.fill(static_cast<std::uint8_t>(number));
  part.checksum = {ChecksumAlgorithm::crc64nvme, ChecksumType::full_object, "12345678"};
  part.modified = at_us(1'700'000'000'000'000);
  part.blob = sample_blob(number, 4, 2);
  return part;
}

ObjectRecord sample_object() {
  ObjectRecord record;
  record.size_bytes = 123'456'789;
  record.etag = "0123456789abcdef0123456789abcdef";
  record.modified = at_us(1'700'000'000'123'456);
  record.owner = "account-1";
  record.checksums = {{ChecksumAlgorithm::crc32c, ChecksumType::full_object, "abcd"}};
  record.headers = {{"content-type", "application/x-tar"},
                    {"x-amz-meta-k", std::string("\0\xff", 2)}};
  record.parts = {sample_part(0)};
  return record;
}

ObjectRecord sample_multipart() {
  ObjectRecord record = sample_object();
  record.etag = "0123456789abcdef0123456789abcdef-33";
  record.part_count = 33;
  record.parts.clear();
  record.manifest = {{sample_blob(7, 1, 2), 0, 0, 33, {}}};
  record.upload_id = "abcdefghijklmnopqrstuvwxyz234567";
  record.attempt = std::string(16, 'a');
  return record;
}

BucketRecord sample_bucket() {
  BucketRecord record;
  record.id = {0xfeed'0000'0000'0001ull};
  record.number = {3};
  record.state = BucketState::deleting;
  record.partitions = 16;
  record.owner = "account-1";
  record.created = at_us(1'700'000'000'000'000);
  record.region = "us-east-1";
  return record;
}

UploadRecord sample_upload() {
  UploadRecord record;
  record.owner = "account-1";
  record.initiated = at_us(1'700'000'000'000'001);
  record.headers = {{"content-type", "text/plain"}};
  record.checksum_algorithm = ChecksumAlgorithm::sha256;
  record.checksum_type = ChecksumType::composite;
  record.attempt = {1, 2};
  record.object_seen = {3, 4};
  record.target = sample_multipart();
  record.if_match = "*";
  record.if_none_match = "0123456789abcdef0123456789abcdef";
  record.etag = "0123456789abcdef0123456789abcdef-33";
  record.complete_digest = std::string(32, 'd');
  return record;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    for (const int shift : {4, 0})
      out += "0123456789abcdef"[static_cast<unsigned char>(c) >> shift & 15];
  }
  return out;
}

// All that a value says beside its head, as one text to compare.
std::string text_of(const RegisterValue& value) {
  return std::to_string(static_cast<int>(value.kind)) + "/" + std::to_string(value.inline_bytes) +
         "/" + hex(value.summary) + "/" + hex(value.payload);
}

struct Sample {
  std::string name;
  RegisterValue value;
};
std::vector<Sample> samples() {
  ObjectRecord inlined = sample_object();
  inlined.parts.clear();
  ObjectRecord many = sample_object();
  many.parts.clear();
  for (std::uint16_t n = 1; n <= limits::kPartsInRecordMax; ++n)
    many.parts.push_back(sample_part(n));
  PartInfo small = sample_part(10'000);
  small.blob.reset();
  small.inline_data = std::string(300, 'i');
  return {{"empty", to_value(ObjectRecord{}, 0)},
          {"object", to_value(sample_object(), 0)},
          {"inlined", to_value(inlined, 4096)},
          {"multipart", to_value(sample_multipart(), 0)},
          {"many_parts", to_value(many, 0)},
          {"bucket", to_value(sample_bucket())},
          {"upload_open", to_value(UploadRecord{}, ValueKind::upload_open)},
          {"upload_completing", to_value(sample_upload(), ValueKind::upload_completing)},
          {"part", to_value(sample_part(17))},
          {"inline_part", to_value(small)}};
}

// Every byte of a record, but only some of the many of a long one, which repeats itself.
std::size_t step_through(std::string_view bytes) { return bytes.size() > 1500 ? 61 : 1; }

// Decodes by kind and encodes again.
Result<RegisterValue> again(const RegisterValue& value) {
  switch (value.kind) {
    case ValueKind::object: {
      TRY(record, object_record(value));
      return to_value(record, value.inline_bytes);
    }
    case ValueKind::bucket: {
      TRY(record, bucket_record(value));
      return to_value(record);
    }
    case ValueKind::part: {
      TRY(record, part_info(value));
      return to_value(record);
    }
    default: {
      TRY(record, upload_record(value));
      return to_value(record, value.kind);
    }
  }
}
}  // namespace

TEST_CASE("every record decodes to what was encoded") {
  const auto record = object_record(to_value(sample_object(), 0));
  REQUIRE(record);
  CHECK(record->size_bytes == 123'456'789);
  CHECK(record->etag == "0123456789abcdef0123456789abcdef");
  CHECK(record->modified == at_us(1'700'000'000'123'456));
  CHECK(record->owner == "account-1");
  CHECK(record->checksums == sample_object().checksums);
  CHECK(record->headers == sample_object().headers);
  REQUIRE(record->parts.size() == 1);
  CHECK(record->parts[0].blob == sample_blob(0, 4, 2));
  CHECK(record->parts[0].checksum == sample_part(0).checksum);

  const auto upload = upload_record(to_value(sample_upload(), ValueKind::upload_completing));
  REQUIRE(upload);
  CHECK(upload->attempt == OpId{1, 2});
  CHECK(upload->object_seen == OpId{3, 4});
  CHECK(upload->checksum_algorithm == ChecksumAlgorithm::sha256);
  REQUIRE(upload->target);
  CHECK(upload->target->manifest.at(0).blob == sample_blob(7, 1, 2));
  CHECK(upload->target->manifest.at(0).entries == 33);
  CHECK(upload->target->upload_id == "abcdefghijklmnopqrstuvwxyz234567");

  const auto bucket = bucket_record(to_value(sample_bucket()));
  REQUIRE(bucket);
  CHECK(bucket->id == sample_bucket().id);
  CHECK(bucket->state == BucketState::deleting);
  CHECK(bucket->partitions == 16);
  CHECK(bucket->region == "us-east-1");

  const auto part = part_info(to_value(sample_part(17)));
  REQUIRE(part);
  CHECK(part->number == 17);
  CHECK(part->md5 == sample_part(17).md5);
}

TEST_CASE("every record has one encoding") {
  for (const Sample& sample : samples()) {
    CAPTURE(sample.name);
    const auto value = again(sample.value);
    REQUIRE(value);
    CHECK(text_of(*value) == text_of(sample.value));
  }
}

TEST_CASE("stored records of version 1 never change") {
  std::ifstream file(std::string(PENSTOCK_GOLDEN_DIR) + "/records_v1.txt");
  std::map<std::string, std::string> golden;
  std::string name, text;
  while (file >> name >> text) golden[name] = text;
  std::map<std::string, std::string> now;
  for (const Sample& sample : samples()) now[sample.name] = text_of(sample.value);
  now["locations"] = hex(encode_locations(sample_blob(1, 4, 2)));
  now["manifest_page"] = hex(encode_manifest_page({sample_part(1), sample_part(2)}));
  for (const auto& [key, value] : now) {
    CAPTURE(key);
    CHECK(golden[key] == value);
  }
  CHECK(golden.size() == now.size());
}

TEST_CASE("a record cut anywhere is refused or ends at a field, and nothing past its end is read") {
  const auto try_cut = [](RegisterValue value, std::string RegisterValue::*text) {
    const std::string whole = value.*text;
    std::size_t refused = 0;
    for (std::size_t cut = 0; cut < whole.size(); cut += step_through(whole)) {
      value.*text = std::string(whole.data(), cut);  // its own allocation: ASan sees overreads
      const auto decoded = again(value);
      if (!decoded) CHECK(decoded.error().code == Errc::corrupt);
      refused += decoded ? 0 : 1;
    }
    return refused;
  };
  for (const Sample& sample : samples()) {
    CAPTURE(sample.name);
    CHECK((sample.value.payload.empty() || try_cut(sample.value, &RegisterValue::payload) > 0));
    CHECK((sample.value.summary.empty() || try_cut(sample.value, &RegisterValue::summary) > 0));
  }
}

TEST_CASE("a record with a flipped byte is refused or has one encoding") {
  for (const Sample& sample : samples()) {
    const std::size_t step = step_through(sample.value.payload);
    for (std::size_t at = 0; at < sample.value.payload.size(); at += step) {
      for (const int flip : {0x01, 0x40, 0x80, 0xff}) {
        RegisterValue value = sample.value;
        value.payload[at] = static_cast<char>(value.payload[at] ^ flip);
        const auto whole = again(value);
        if (!whole) CHECK(whole.error().code == Errc::corrupt);
      }
    }
  }
}

TEST_CASE("unknown optional fields are kept, unknown required ones are refused") {
  const std::string optional =
      std::string("\x8f\x03new", 5) + std::string("\xc1\x02t1", 4) + std::string("\xc1\x00", 2);
  for (const Sample& sample : samples()) {
    if (sample.value.kind == ValueKind::part || sample.value.kind == ValueKind::bucket) continue;
    CAPTURE(sample.name);
    RegisterValue later = sample.value;
    later.summary += optional;
    later.payload += optional;
    const auto kept = again(later);
    REQUIRE(kept);
    CHECK(text_of(*kept) == text_of(later));
  }
  ObjectRecord paged = sample_multipart();
  paged.manifest[0].kept = optional;
  CHECK(object_record(to_value(paged, 0)).value().manifest[0].kept == optional);
  paged = sample_object();
  paged.parts[0].kept = optional;
  CHECK(object_record(to_value(paged, 0)).value().parts[0].kept == optional);

  RegisterValue part = to_value(sample_part(1));
  part.payload += optional;
  REQUIRE(again(part));
  CHECK(text_of(*again(part)) == text_of(part));
  RegisterValue bucket = to_value(sample_bucket());
  bucket.summary += optional;
  REQUIRE(again(bucket));
  CHECK(text_of(*again(bucket)) == text_of(bucket));

  RegisterValue required = to_value(ObjectRecord{}, 0);
  required.payload += std::string("\x10\x01x", 3);
  CHECK(object_record(required).error().code == Errc::corrupt);
  required = to_value(ObjectRecord{}, 0);
  required.summary += std::string("\x3f\x00", 2);
  CHECK(object_summary(required.summary).error().code == Errc::corrupt);
}

TEST_CASE("malformed fields are refused") {
  struct Row {
    const char* what;
    std::string summary;
  };
  const Row rows[] = {
      {"no version", ""},
      {"another version", "\x02"},
      {"length past the end", std::string("\x01\x05\x09"
                                          "abc",
                                          6)},
      {"long form of a short length", std::string("\x01\x05\xff\x03\x00\x00\x00"
                                                  "abc",
                                                  10)},
      {"long length past the end", std::string("\x01\x05\xff\xff\xff\xff\xff"
                                               "abc",
                                               10)},
      {"tags out of order", std::string("\x01\x05\x01"
                                        "a\x01\x01\x07",
                                        7)},
      {"tag twice", std::string("\x01\x05\x01"
                                "a\x05\x01"
                                "a",
                                7)},
      {"number of nine bytes", std::string("\x01\x01\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01", 12)},
      {"number with a leading zero", std::string("\x01\x01\x02\x01\x00", 5)},
      {"empty number", std::string("\x01\x01\x00", 3)},
      {"unknown checksum algorithm", std::string("\x01\x06\x01\x06", 4)},
      {"etag digest of 15 bytes", std::string("\x01\x02\x0f", 3) + std::string(15, 'x')},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto summary = object_summary(row.summary);
    REQUIRE(!summary);
    CHECK(summary.error().code == Errc::corrupt);
  }
}

TEST_CASE("an etag of any form survives") {
  const std::string digest = "0123456789abcdef0123456789abcdef";
  for (const std::string& etag :
       {digest, digest + "-1", digest + "-10000", digest + "-10001", digest + "-0", digest + "-01",
        digest + "-", digest + "-1x", digest + "1", std::string("x"),
        std::string("0123456789ABCDEF0123456789ABCDEF"), std::string(32, 'g'),
        "g" + digest.substr(1), "0g" + digest.substr(2), std::string()}) {
    ObjectRecord record;
    record.etag = etag;
    const RegisterValue value = to_value(record, 0);
    REQUIRE(object_summary(value.summary));
    CHECK(object_summary(value.summary)->etag == etag);
  }
}

TEST_CASE("a summary says what a LIST shows") {
  const auto summary = object_summary(to_value(sample_object(), 0).summary);
  REQUIRE(summary);
  CHECK(summary->size_bytes == 123'456'789);
  CHECK(summary->modified == at_us(1'700'000'000'123'456));
  CHECK(summary->owner == "account-1");
  CHECK(summary->checksum_algorithm == ChecksumAlgorithm::crc32c);
  CHECK(summary->checksum_type == ChecksumType::full_object);
  const auto upload = upload_summary(to_value(sample_upload(), ValueKind::upload_open).summary);
  REQUIRE(upload);
  CHECK(upload->owner == "account-1");
  CHECK(upload->initiated == at_us(1'700'000'000'000'001));
  CHECK(upload->checksum_type == ChecksumType::composite);
}

TEST_CASE("a record of another kind is refused") {
  CHECK(object_record(to_value(sample_bucket())).error().code == Errc::corrupt);
  CHECK(bucket_record(to_value(sample_object(), 0)).error().code == Errc::corrupt);
  CHECK(upload_record(to_value(sample_part(1))).error().code == Errc::corrupt);
  CHECK(part_info(tombstone_value()).error().code == Errc::corrupt);
}

TEST_CASE("a value owns the blobs of its parts and pages, an upload only the pages of its target") {
  CHECK(blobs_of(to_value(sample_object(), 0)).value() == std::vector{sample_blob(0, 4, 2)});
  CHECK(blobs_of(to_value(sample_multipart(), 0)).value() == std::vector{sample_blob(7, 1, 2)});
  CHECK(blobs_of(to_value(sample_part(3))).value() == std::vector{sample_blob(3, 4, 2)});
  CHECK(blobs_of(tombstone_value()).value().empty());
  CHECK(blobs_of(to_value(sample_bucket())).value().empty());

  UploadRecord upload = sample_upload();
  upload.target->parts = {sample_part(1), sample_part(2)};
  CHECK(blobs_of(to_value(upload, ValueKind::upload_completing)).value() ==
        std::vector{sample_blob(7, 1, 2)});
  CHECK(blobs_of(to_value(upload, ValueKind::upload_done)).value().empty());

  RegisterValue broken = to_value(sample_object(), 0);
  broken.payload.resize(broken.payload.size() - 1);
  CHECK(blobs_of(broken).error().code == Errc::corrupt);
}

TEST_CASE("locations and manifest pages survive a round trip") {
  const BlobRef blob = sample_blob(9, 8, 3);
  CHECK(decode_locations(blob.write_id, encode_locations(blob)).value() == blob);
  CHECK(decode_locations(blob.write_id, "").error().code == Errc::corrupt);

  std::vector<PartInfo> parts;
  for (std::size_t n = 1; n <= limits::kManifestPageEntries; ++n) {
    parts.push_back(sample_part(static_cast<std::uint16_t>(n)));
  }
  const std::string page = encode_manifest_page(parts);
  const auto decoded = decode_manifest_page(page);
  REQUIRE(decoded);
  CHECK(decoded->size() == parts.size());
  CHECK(encode_manifest_page(*decoded) == page);
  CHECK(decode_manifest_page(std::string_view(page).substr(0, page.size() - 1)).error().code ==
        Errc::corrupt);
}

TEST_CASE("Whatever upload is let in, its record fits a register while it is completed") {
  ObjectRecord target;
  target.size_bytes = limits::kObjectBytesMax;
  target.etag = std::string(limits::kConditionBytesMax, 'e');
  target.owner = std::string(128, 'o');
  target.headers["x-amz-meta-a"] = std::string(limits::kHeaderSectionBytesMax, 'h');
  target.part_count = limits::kPartsMax;
  BlobRef blob;
  blob.write_id = {~0ull, ~0ull};
  blob.shape = {limits::kFragmentsPerStripeMax - 4, 4, 1 << 20, limits::kPutBytesMax};
  blob.locations.assign(limits::kFragmentsPerStripeMax,
                        Location{VolumeId{~0ull}, Generation{~0ull}});
  const StoredChecksum sum{ChecksumAlgorithm::sha256, ChecksumType::composite,
                           std::string(32, 's')};
  target.checksums = {sum};
  UploadRecord upload;
  upload.owner = target.owner;
  upload.headers = target.headers;
  upload.if_match = upload.if_none_match = target.etag;
  upload.complete_digest = sum.raw;
  ObjectRecord with_manifest = target;
  for (std::size_t i = 0; i < limits::kPartsInRecordMax; ++i) {
    PartInfo part;
    part.number = limits::kPartsMax;
    part.size_bytes = limits::kPutBytesMax;
    part.checksum = sum;
    part.modified = WallTime::max();
    part.blob = blob;
    target.parts.push_back(part);
    ManifestPage page;
    page.blob = blob;
    page.first_offset = limits::kObjectBytesMax;
    with_manifest.manifest.push_back(page);
  }
  for (const ObjectRecord& made : {target, with_manifest}) {
    upload.target = made;
    constexpr std::size_t kHead = 1024;  // op-id, chain and the rest
    CHECK(to_value(upload, ValueKind::upload_completing).payload.size() + kHead <
          limits::kValueBytesMax);
  }
}

TEST_CASE("a blob whose shape and locations disagree is refused") {
  const auto decode = [](BlobRef blob) {
    return decode_locations(blob.write_id, encode_locations(blob));
  };
  BlobRef blob = sample_blob(1, 4, 2);
  CHECK(decode(blob));
  blob.locations.pop_back();
  CHECK(!decode(blob));
  blob = sample_blob(1, 4, 2);
  blob.shape.k = 0;
  CHECK(!decode(blob));
  blob = sample_blob(1, 4, 2);
  blob.shape.unit_bytes = 1000;
  CHECK(!decode(blob));
  blob = sample_blob(1, 30, 3);
  CHECK(!decode(blob));
}

}  // namespace penstock
