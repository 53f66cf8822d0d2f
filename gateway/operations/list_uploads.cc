// GET /{bucket}?uploads: uploads that are open, by key and then by id.
#include "gateway/body/checksum_headers.h"
#include "gateway/operations/access.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/list_parameters.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::size_t kUploadBytes = 640;    // of XML, at most, beside key and names
constexpr std::size_t kUploadMemory = 1024;  // of a page, beside the key and the upload's headers

struct UploadQuery {
  KeyEncoding encoding;
  UploadListRequest list;
  MemoryBudget::Lease memory;  // of the page that is read
};

S3Result<UploadQuery> upload_query(const S3Request& request) {
  UploadQuery query;
  TRY(encoding, KeyEncoding::of(request));
  TRY(most, page_size(request, "max-uploads", limits::kListPageMax));
  query.encoding = encoding;
  query.list.prefix = query_text(request, "prefix");
  query.list.delimiter = query_text(request, "delimiter");
  query.list.key_marker = query_text(request, "key-marker");
  // S3 passes over an upload-id marker without a key marker.
  if (!query.list.key_marker.empty()) {
    query.list.upload_id_marker = query_text(request, "upload-id-marker");
  }
  query.list.max_uploads = most;
  return query;
}

std::size_t memory_of(const UploadEntry& entry) {
  std::size_t bytes = kUploadMemory + entry.key.size();
  for (const auto& [name, value] : entry.record.headers) bytes += name.size() + value.size();
  return bytes;
}

void write_upload(XmlWriter& xml, const S3Request& request, const UploadQuery& query,
                  const UploadEntry& entry) {
  xml.open("Upload");
  query.encoding.write(xml, "Key", entry.key);
  xml.element("UploadId", entry.upload_id);
  write_owner(xml, "Initiator", entry.record.owner, request.principal.display_name);
  write_owner(xml, "Owner", entry.record.owner, request.principal.display_name);
  xml.element("StorageClass", "STANDARD");
  xml.element("Initiated", iso_date(entry.record.initiated));
  if (entry.record.checksum_algorithm != ChecksumAlgorithm::none) {
    xml.element("ChecksumAlgorithm", s3_name(entry.record.checksum_algorithm));
    xml.element("ChecksumType", to_string(entry.record.checksum_type));
  }
  xml.close("Upload");
}

std::size_t uploads_bytes_max(const S3Request& request, const UploadQuery& query,
                              const UploadPage& page) {
  const std::size_t name_bytes = escaped_bytes_max(request.principal.display_name);
  std::size_t bytes = answer_bytes_max(request) + query.encoding.bytes_max(page.next_key);
  for (const UploadEntry& entry : page.entries) {
    bytes += kUploadBytes + query.encoding.bytes_max(entry.key);
    if (!entry.is_prefix) bytes += 2 * (name_bytes + escaped_bytes_max(entry.record.owner));
  }
  return bytes;
}

void write_uploads(XmlWriter& xml, const S3Request& request, const UploadQuery& query,
                   const UploadPage& page) {
  xml.open_root("ListMultipartUploadsResult");
  xml.element("Bucket", request.bucket);
  query.encoding.write(xml, "KeyMarker", query.list.key_marker);
  xml.element("UploadIdMarker", query.list.upload_id_marker);
  if (page.truncated) {
    query.encoding.write(xml, "NextKeyMarker", page.next_key);
    xml.element("NextUploadIdMarker", page.next_upload_id);
  }
  query.encoding.write(xml, "Prefix", query.list.prefix);
  if (!query.list.delimiter.empty()) query.encoding.write(xml, "Delimiter", query.list.delimiter);
  query.encoding.write_type(xml);
  xml.element("MaxUploads", query.list.max_uploads);
  xml.boolean("IsTruncated", page.truncated);
  for (const UploadEntry& entry : page.entries) {
    if (!entry.is_prefix) write_upload(xml, request, query, entry);
  }
  for (const UploadEntry& entry : page.entries) {
    if (!entry.is_prefix) continue;
    xml.open("CommonPrefixes");
    query.encoding.write(xml, "Prefix", entry.key);
    xml.close("CommonPrefixes");
  }
  xml.close("ListMultipartUploadsResult");
}

}  // namespace

S3Task<S3Response> list_multipart_uploads(Gateway& gateway, const S3Request& request) {
  CO_TRY(query, upload_query(request));
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  UploadPage page;
  if (query.list.max_uploads > 0) {
    // The records come with the headers that the uploads were begun with.
    const std::size_t entry_max =
        limits::kKeyBytesMax + limits::kHeaderSectionBytesMax + kUploadMemory;
    const std::size_t most = query.list.max_uploads * entry_max;
    CO_TRY(room, co_await take_list_room(gateway, request, most));
    query.memory = std::move(room.memory);
    Index& index = gateway.index;
    S3_TRY(found, co_await index.list_uploads(std::move(bucket), query.list, request.deadline),
           S3Code::NoSuchBucket);
    page = std::move(found);
    std::size_t bytes = 0;
    for (const UploadEntry& entry : page.entries) bytes += memory_of(entry);
    query.memory.shrink_to(bytes);
  }
  const std::size_t text_bytes = uploads_bytes_max(request, query, page);
  CO_TRY(memory, co_await lease_document(gateway, request, text_bytes));
  XmlWriter xml(text_bytes);
  write_uploads(xml, request, query, page);
  co_return xml_response(xml, std::move(memory));
}

}  // namespace penstock
