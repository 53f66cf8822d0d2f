#include "server/objects/multipart_complete.h"

#include <doctest/doctest.h>

#include "penstock/checksum.h"
#include "penstock/md5.h"
#include "penstock/text_codec.h"

using namespace penstock;

namespace {
constexpr std::uint64_t kPart = limits::kPartBytesMin;

PartInfo kept(std::uint16_t number, std::uint64_t size_bytes, std::uint8_t seed) {
  PartInfo made;
  made.number = number;
  made.size_bytes = size_bytes;
  made.md5.fill(seed);
  BlobRef blob;
  blob.write_id = WriteId{1, number};
  if (size_bytes != 0) made.blob = blob;
  return made;
}

CompletePart naming(const PartInfo& stored) {
  CompletePart named;
  named.number = stored.number;
  named.etag = hex_encode(std::as_bytes(std::span(stored.md5)));
  return named;
}

CompleteRequest naming_all(const std::vector<PartInfo>& stored) {
  CompleteRequest request;
  for (const PartInfo& each : stored) request.parts.push_back(naming(each));
  return request;
}

PartInfo summed(std::uint16_t number, ChecksumAlgorithm algorithm, std::string_view content) {
  PartInfo made = kept(number, content.size(), static_cast<std::uint8_t>(number));
  made.checksum.algorithm = algorithm;
  made.checksum.raw = checksum_of(algorithm, as_bytes(content));
  return made;
}
}  // namespace

TEST_CASE("The list of a Complete is checked against the stored parts") {
  const std::vector<PartInfo> stored = {kept(1, kPart, 1), kept(3, kPart - 1, 3), kept(7, 0, 7)};
  struct Row {
    const char* name;
    std::vector<std::size_t> named;  // indexes into `stored`
    PartFault fault;
    std::uint16_t fault_part;
  };
  const Row rows[] = {
      {"the first alone", {0}, PartFault::none, 0},
      {"a small last part", {0, 1}, PartFault::none, 0},
      {"an empty part alone", {2}, PartFault::none, 0},
      {"a small part in the middle", {0, 1, 2}, PartFault::too_small, 3},
      {"descending", {1, 0}, PartFault::order, 1},
      {"one twice", {0, 0}, PartFault::order, 1},
      {"none", {}, PartFault::missing, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CompleteRequest request;
    for (const std::size_t index : row.named) request.parts.push_back(naming(stored[index]));
    const CompletePlan plan = plan_complete(UploadRecord{}, stored, request);
    CHECK(plan.fault == row.fault);
    CHECK(plan.fault_part == row.fault_part);
  }
}

TEST_CASE("A part that is not stored, or has another ETag or checksum, is missing") {
  std::vector<PartInfo> stored = {kept(1, kPart, 1), summed(2, ChecksumAlgorithm::crc32, "two")};
  CompleteRequest absent = naming_all(stored);
  absent.parts[1].number = 3;
  CHECK(plan_complete(UploadRecord{}, stored, absent).fault == PartFault::missing);
  CHECK(plan_complete(UploadRecord{}, stored, absent).fault_part == 3);
  CompleteRequest gap = naming_all(stored);
  std::vector<PartInfo> later = stored;
  later[1].number = 3;  // the ETag that is named for part 2 is that of part 3
  CHECK(plan_complete(UploadRecord{}, later, gap).fault == PartFault::missing);
  CHECK(plan_complete(UploadRecord{}, later, gap).fault_part == 2);
  CompleteRequest other_etag = naming_all(stored);
  other_etag.parts[0].etag = other_etag.parts[1].etag;
  CHECK(plan_complete(UploadRecord{}, stored, other_etag).fault == PartFault::missing);
  CompleteRequest other_sum = naming_all(stored);
  other_sum.parts[1].checksum = stored[1].checksum;
  CHECK(plan_complete(UploadRecord{}, stored, other_sum).fault == PartFault::none);
  other_sum.parts[1].checksum.raw = "1234";
  CHECK(plan_complete(UploadRecord{}, stored, other_sum).fault == PartFault::missing);
}

TEST_CASE("A part's checksum in another algorithm than it has is refused") {
  const std::vector<PartInfo> stored = {kept(1, kPart, 1),
                                        summed(2, ChecksumAlgorithm::crc64nvme, "two")};
  for (const std::size_t index : {0, 1}) {
    CompleteRequest request = naming_all(stored);
    request.parts[index].checksum = summed(1, ChecksumAlgorithm::crc32, "two").checksum;
    const CompletePlan plan = plan_complete(UploadRecord{}, stored, request);
    CHECK(plan.fault == PartFault::algorithm);
    CHECK(plan.fault_part == index + 1);
  }
}

TEST_CASE("The object gets the parts named, and the blobs of the others are left over") {
  const std::vector<PartInfo> stored = {kept(1, 9, 1), kept(2, kPart, 2), kept(4, kPart, 4),
                                        kept(5, 0, 5), kept(6, 11, 6)};
  UploadRecord upload;
  upload.owner = "me";
  upload.headers["content-type"] = "text/plain";
  CompleteRequest request;
  request.parts = {naming(stored[1]), naming(stored[2])};
  const CompletePlan plan = plan_complete(upload, stored, request);
  CHECK(plan.fault == PartFault::none);
  CHECK(plan.target.size_bytes == 2 * kPart);
  CHECK(plan.target.part_count == 2);
  CHECK(plan.target.owner == "me");
  CHECK(plan.target.headers == upload.headers);
  REQUIRE(plan.parts.size() == 2);
  CHECK(plan.parts[1].number == 4);
  REQUIRE(plan.left_over.size() == 2);  // part 5 is empty: it has no blob
  CHECK(plan.left_over[0].write_id == stored[0].blob->write_id);
  CHECK(plan.left_over[1].write_id == stored[4].blob->write_id);
}

TEST_CASE("The ETag is the MD5 of the parts' MD5s and their number") {
  std::vector<PartInfo> parts = {kept(1, 0, 0)};
  parts[0].md5 = md5({});
  // md5 of the 16 raw bytes of md5(""): a multipart upload with one empty part.
  CHECK(multipart_etag(parts) == "59adb24ef3cdbe0297f05b395827453f-1");
  parts.push_back(parts[0]);
  CHECK(multipart_etag(parts).ends_with("-2"));
}

TEST_CASE("The whole's checksum follows from the parts', composite or of the full object") {
  const std::string first = "the first part", second = "and the second";
  for (const auto algorithm : kChecksumAlgorithms) {
    CAPTURE(to_string(algorithm));
    const std::vector<PartInfo> parts = {summed(1, algorithm, first), summed(2, algorithm, second)};
    const auto composite = combined_checksum(algorithm, ChecksumType::composite, parts);
    REQUIRE(composite);
    const std::string digests = parts[0].checksum.raw + parts[1].checksum.raw;
    CHECK(composite->raw == checksum_of(algorithm, as_bytes(digests)));
    CHECK(composite->type == ChecksumType::composite);
    const auto full = combined_checksum(algorithm, ChecksumType::full_object, parts);
    CHECK(full.has_value() == is_combinable(algorithm));
    if (full) CHECK(full->raw == checksum_of(algorithm, as_bytes(first + second)));
  }
}

TEST_CASE("A part without the checksum of the whole's algorithm leaves the whole without one") {
  const auto crc = ChecksumAlgorithm::crc32;
  PartInfo cut_short = summed(2, crc, "two");
  cut_short.checksum.raw.pop_back();
  const PartInfo others[] = {kept(2, 3, 2), summed(2, ChecksumAlgorithm::sha1, "two"),
                             summed(2, ChecksumAlgorithm::crc32c, "two"), cut_short};
  for (const PartInfo& other : others) {
    const std::vector<PartInfo> parts = {summed(1, crc, "one"), other};
    CHECK_FALSE(combined_checksum(crc, ChecksumType::composite, parts));
    CHECK_FALSE(combined_checksum(crc, ChecksumType::full_object, parts));
  }
}

TEST_CASE("An upload that named no algorithm gets the CRC that all its parts carry") {
  const auto crc = ChecksumAlgorithm::crc32;
  std::vector<PartInfo> parts = {summed(1, crc, "whole")};
  CompletePlan plan = plan_complete(UploadRecord{}, parts, naming_all(parts));
  REQUIRE(plan.target.checksums.size() == 1);
  CHECK(plan.target.checksums[0].type == ChecksumType::full_object);
  CHECK(plan.target.checksums[0].raw == checksum_of(crc, as_bytes("whole")));
  // The store's own choice, where no part names one.
  const auto own = ChecksumAlgorithm::crc64nvme;
  parts = {summed(1, own, std::string(kPart, 'w')), summed(2, own, "hole")};
  plan = plan_complete(UploadRecord{}, parts, naming_all(parts));
  REQUIRE(plan.target.checksums.size() == 1);
  CHECK(plan.target.checksums[0].raw ==
        checksum_of(own, as_bytes(std::string(kPart, 'w') + "hole")));
  parts = {summed(1, ChecksumAlgorithm::sha256, "whole")};
  CHECK(plan_complete(UploadRecord{}, parts, naming_all(parts)).target.checksums.empty());
  parts = {kept(1, 5, 1)};
  CHECK(plan_complete(UploadRecord{}, parts, naming_all(parts)).target.checksums.empty());
}

TEST_CASE("What a Complete says of the whole must be so") {
  const auto crc = ChecksumAlgorithm::crc32c;
  const std::vector<PartInfo> parts = {summed(1, crc, "whole")};
  UploadRecord upload;
  upload.checksum_algorithm = crc;
  upload.checksum_type = ChecksumType::full_object;
  const StoredChecksum right{crc, ChecksumType::full_object, checksum_of(crc, as_bytes("whole"))};
  const StoredChecksum wrong{crc, ChecksumType::full_object, "1234"};
  const StoredChecksum other{ChecksumAlgorithm::sha1, ChecksumType::composite, "x"};
  struct Row {
    const char* name;
    std::optional<std::uint64_t> size;
    StoredChecksum checksum;
    std::optional<ChecksumType> type;
    PartFault fault;
  };
  const Row rows[] = {
      {"nothing", {}, {}, {}, PartFault::none},
      {"the size", 5, {}, {}, PartFault::none},
      {"another size", 6, {}, {}, PartFault::size},
      {"the checksum", {}, right, {}, PartFault::none},
      {"another checksum", {}, wrong, {}, PartFault::checksum},
      {"another algorithm", {}, other, {}, PartFault::type},
      {"the type", {}, {}, ChecksumType::full_object, PartFault::none},
      {"another type", {}, {}, ChecksumType::composite, PartFault::type},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CompleteRequest request = naming_all(parts);
    request.object_size = row.size;
    request.checksum = row.checksum;
    request.checksum_type = row.type;
    CHECK(plan_complete(upload, parts, request).fault == row.fault);
  }
  // An upload that named no algorithm has the checksum of the whole, if it has any.
  CompleteRequest typed = naming_all(parts);
  typed.checksum_type = ChecksumType::full_object;
  CHECK(plan_complete(UploadRecord{}, parts, typed).fault == PartFault::none);
  typed.checksum_type = ChecksumType::composite;
  CHECK(plan_complete(UploadRecord{}, parts, typed).fault == PartFault::type);
}

TEST_CASE("An object over 5 TiB is refused") {
  std::vector<PartInfo> parts;
  for (std::uint16_t i = 1; i <= 1025; ++i) parts.push_back(kept(i, limits::kPutBytesMax, 1));
  CHECK(plan_complete(UploadRecord{}, parts, naming_all(parts)).fault == PartFault::size);
  parts.resize(1024);
  CHECK(plan_complete(UploadRecord{}, parts, naming_all(parts)).fault == PartFault::none);
}

TEST_CASE("The digest tells one list of parts from another") {
  const std::vector<PartInfo> stored = {kept(1, kPart, 1), kept(2, kPart, 2), kept(3, 1, 3)};
  const std::string all = complete_digest(naming_all(stored));
  CHECK(all.size() == 32);
  CHECK(all == complete_digest(naming_all(stored)));
  CompleteRequest fewer = naming_all(stored);
  fewer.parts.pop_back();
  CHECK(complete_digest(fewer) != all);
  CompleteRequest renumbered = naming_all(stored);
  renumbered.parts[2].number = 4;
  CHECK(complete_digest(renumbered) != all);
}
