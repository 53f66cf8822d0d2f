// GET /{bucket}/{key}?attributes: what is known of an object without its bytes.
#include <array>

#include "gateway/body/checksum_headers.h"
#include "gateway/operations/access.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/http_text.h"
#include "gateway/s3/object_headers.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

// x-amz-object-attributes, x-amz-max-parts, x-amz-part-number-marker.
struct AttributesQuery {
  bool etag = false, checksum = false, parts = false, storage_class = false, size = false;
  std::size_t max_parts = limits::kListPageMax;
  std::size_t marker = 0;
};

S3Result<> add_attribute(AttributesQuery& query, std::string_view name) {
  const std::array<std::pair<std::string_view, bool*>, 5> names{{
      {"ETag", &query.etag},
      {"Checksum", &query.checksum},
      {"ObjectParts", &query.parts},
      {"StorageClass", &query.storage_class},
      {"ObjectSize", &query.size},
  }};
  for (const auto& [known, wanted] : names) {
    if (!http_text::equals_ignoring_case(name, known)) continue;
    *wanted = true;
    return {};
  }
  return s3_error(S3Code::InvalidArgument, "Invalid attribute name specified.");
}

S3Result<std::size_t> number_header(const S3Request& request, std::string_view name,
                                    std::size_t otherwise, std::size_t most) {
  const std::string* value = request.header(name);
  if (value == nullptr) return otherwise;
  const bool digits = !value->empty() && value->size() <= 9 &&
                      value->find_first_not_of("0123456789") == std::string::npos;
  if (!digits) {
    return s3_error(S3Code::InvalidArgument,
                    "Argument " + std::string(name) + " must be an integer");
  }
  return std::min<std::size_t>(std::stoul(*value), most);
}

S3Result<AttributesQuery> read_query(const S3Request& request) {
  AttributesQuery query;
  bool any = false;
  for (const auto& [name, value] : request.headers) {
    if (name != "x-amz-object-attributes") continue;
    std::string_view list = value;
    while (!list.empty()) {
      const auto comma = list.find(',');
      CHECK_OK(add_attribute(query, http_text::trim(list.substr(0, comma), " \t")));
      any = true;
      list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    }
  }
  if (!any) {
    return s3_error(S3Code::InvalidArgument,
                    "The x-amz-object-attributes header specifying the attributes to be retrieved "
                    "is either missing or empty");
  }
  TRY(most, number_header(request, "x-amz-max-parts", query.max_parts, limits::kListPageMax));
  TRY(marker, number_header(request, "x-amz-part-number-marker", 0, limits::kPartsMax));
  query.max_parts = most;
  query.marker = marker;
  return query;
}

void write_checksums(XmlWriter& xml, const ObjectRecord& record) {
  if (record.checksums.empty()) return;
  xml.open("Checksum");
  for (const auto& checksum : record.checksums) {
    write_checksum(xml, checksum, record.part_count);
    xml.element("ChecksumType", to_string(checksum.type));
  }
  xml.close("Checksum");
}

// Parts count from 1 in their order, whatever numbers they were uploaded under.
void write_parts(XmlWriter& xml, const AttributesQuery& query, const std::vector<PartInfo>& parts) {
  const std::size_t begin = std::min(query.marker, parts.size());
  const std::size_t end = begin + std::min(query.max_parts, parts.size() - begin);
  xml.open("ObjectParts");
  xml.element("PartsCount", parts.size());
  xml.element("PartNumberMarker", query.marker);
  xml.element("NextPartNumberMarker", end);
  xml.element("MaxParts", query.max_parts);
  xml.boolean("IsTruncated", end < parts.size() && query.max_parts > 0);
  for (std::size_t i = begin; i < end; ++i) {
    xml.open("Part");
    xml.element("PartNumber", i + 1);
    xml.element("Size", parts[i].size_bytes);
    write_checksum(xml, parts[i].checksum, 0);
    xml.close("Part");
  }
  xml.close("ObjectParts");
}

}  // namespace

S3Task<S3Response> get_object_attributes(Gateway& gateway, const S3Request& request) {
  CO_CHECK(check_object_read_headers(request));
  CO_TRY(query, read_query(request));
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  S3_TRY(object, co_await gateway.objects.get(*bucket, request.key, false, request.deadline),
         S3Code::NoSuchKey);
  const ObjectRecord& record = object.record;
  std::vector<PartInfo> parts;
  MemoryBudget::Lease memory;
  if (query.parts && record.part_count > 0) {
    CO_TRY(room, co_await lease_document(gateway, request, record.part_count * kPartMemory));
    memory = std::move(room);
    S3_TRY(found, co_await gateway.objects.parts(record, request.deadline), S3Code::InternalError);
    parts = std::move(found);
  }
  XmlWriter xml(1024 + 192 * std::min(parts.size(), query.max_parts));
  xml.open_root("GetObjectAttributesResponse");
  if (query.etag) xml.element("ETag", record.etag);  // the one place where it has no quotes
  if (query.checksum) write_checksums(xml, record);
  if (query.parts && record.part_count > 0) write_parts(xml, query, parts);
  if (query.storage_class) xml.element("StorageClass", "STANDARD");
  if (query.size) xml.element("ObjectSize", record.size_bytes);
  xml.close("GetObjectAttributesResponse");
  S3Response response;
  response.set("Last-Modified", http_date(record.modified));
  response.set_xml(xml.take());
  co_return std::move(response);
}

}  // namespace penstock
