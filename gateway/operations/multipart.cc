// Uploads that begin, end without an object, or are looked into.
#include "gateway/body/checksum_headers.h"
#include "gateway/operations/stored_bytes.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/list_parameters.h"
#include "gateway/s3/object_headers.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

// Of a page while it is made: a part and its text; about.
constexpr std::size_t kPartEntryMemory = 2 * kPartMemory;

void write_part(XmlWriter& xml, const PartInfo& part) {
  xml.open("Part");
  xml.element("PartNumber", part.number);
  xml.element("LastModified", iso_date(part.modified));
  xml.etag(md5_hex(part.md5));
  xml.element("Size", part.size_bytes);
  write_checksum(xml, part.checksum, 0);
  xml.close("Part");
}

struct PartPage {
  std::uint64_t marker = 0;
  std::size_t most = limits::kListPageMax;
  MemoryBudget::Lease memory;  // of the parts
};

S3Result<PartPage> part_page(const S3Request& request) {
  PartPage page;
  TRY(most, page_size(request, "max-parts", limits::kListPageMax));
  page.most = most;
  if (!query_text(request, "part-number-marker").empty()) {
    TRY(marker, page_size(request, "part-number-marker", limits::kPartsMax));
    page.marker = marker;
  }
  return page;
}

// The parts of one page, and one more if there are more.
S3Task<std::vector<PartInfo>> read_page(Gateway& gateway, const S3Request& request,
                                        BucketPtr bucket, std::string upload_id, PartPage& page) {
  if (page.most == 0) co_return std::vector<PartInfo>();
  // The answers of all replicas are there until they are merged into the page.
  const std::size_t most =
      (page.most + 1) * (kPartEntryMemory + part_answers_bytes(request.key, upload_id));
  CO_TRY(room, co_await take_list_room(gateway, request, most));
  page.memory = std::move(room.memory);
  Index& index = gateway.index;
  const PartSpan span{static_cast<std::uint16_t>(page.marker), page.most + 1};
  S3_TRY(parts,
         co_await index.list_parts(std::move(bucket), request.key, std::move(upload_id),
                                   request.deadline, span),
         S3Code::NoSuchUpload);
  page.memory.shrink_to(parts.size() * kPartEntryMemory);
  co_return std::move(parts);
}

std::string parts_xml(const S3Request& request, const UploadRecord& upload, const PartPage& page,
                      const std::vector<PartInfo>& parts) {
  const auto begin = parts.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(std::min(parts.size(), page.most));
  XmlWriter xml(1024 + 320 * static_cast<std::size_t>(end - begin));
  xml.open_root("ListPartsResult");
  xml.element("Bucket", request.bucket);
  xml.element("Key", request.key);
  xml.element("UploadId", query_text(request, "uploadId"));
  write_owner(xml, "Initiator", upload.owner, request.principal.display_name);
  write_owner(xml, "Owner", upload.owner, request.principal.display_name);
  xml.element("StorageClass", "STANDARD");
  xml.element("PartNumberMarker", page.marker);
  if (end != begin) xml.element("NextPartNumberMarker", std::prev(end)->number);
  xml.element("MaxParts", page.most);
  // A page of no parts has no marker to go on from, so it is the last one.
  xml.boolean("IsTruncated", end != parts.end() && page.most > 0);
  if (upload.checksum_algorithm != ChecksumAlgorithm::none) {
    xml.element("ChecksumAlgorithm", s3_name(upload.checksum_algorithm));
    xml.element("ChecksumType", to_string(upload.checksum_type));
  }
  for (auto part = begin; part != end; ++part) write_part(xml, *part);
  xml.close("ListPartsResult");
  return xml.take();
}

}  // namespace

S3Task<S3Response> create_multipart_upload(Gateway& gateway, const S3Request& request) {
  CO_CHECK(check_object_write_headers(request));
  CO_TRY(headers, stored_headers(request));
  CO_TRY(choice, checksum_choice(request));
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  UploadRecord upload;
  upload.owner = request.principal.account_id;
  upload.initiated = gateway.clock.wall();
  upload.headers = std::move(headers);
  upload.checksum_algorithm = choice.algorithm;
  upload.checksum_type = choice.type;
  S3_TRY(
      id,
      co_await gateway.multipart.create(*bucket, request.key, std::move(upload), request.deadline),
      S3Code::NoSuchUpload);
  S3Response response;
  if (choice.algorithm != ChecksumAlgorithm::none) {
    response.set("x-amz-checksum-algorithm", std::string(s3_name(choice.algorithm)));
    response.set("x-amz-checksum-type", std::string(to_string(choice.type)));
  }
  XmlWriter xml;
  xml.open_root("InitiateMultipartUploadResult");
  xml.element("Bucket", request.bucket);
  xml.element("Key", request.key);
  xml.element("UploadId", id);
  xml.close("InitiateMultipartUploadResult");
  response.set_xml(xml.take());
  co_return std::move(response);
}

S3Task<S3Response> abort_multipart_upload(Gateway& gateway, const S3Request& request) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  CO_TRY(id, upload_id_of(request));
  S3_CHECK(
      co_await gateway.multipart.abort(*bucket, request.key, id, request.deadline, request.memory),
      S3Code::NoSuchUpload);
  S3Response response;
  response.status = 204;
  co_return std::move(response);
}

S3Task<S3Response> list_parts(Gateway& gateway, const S3Request& request) {
  CO_TRY(page, part_page(request));
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  CO_TRY(id, upload_id_of(request));
  Multipart& multipart = gateway.multipart;
  S3_TRY(upload, co_await multipart.open(*bucket, request.key, id, request.deadline),
         S3Code::NoSuchUpload);
  CO_TRY(parts, co_await read_page(gateway, request, bucket, id, page));
  S3Response response;
  response.set_xml(parts_xml(request, upload, page, parts));
  co_return std::move(response);
}

}  // namespace penstock
