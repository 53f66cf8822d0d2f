// GET /{bucket}: the three lists of objects. They differ in how a page is asked for and in what is
// shown of each object; the index merges and decides.
#include "gateway/body/checksum_headers.h"
#include "gateway/operations/access.h"
#include "gateway/s3/http_date.h"
#include "gateway/s3/list_parameters.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::size_t kEntryBytes = 432;   // of XML, at most, beside key and owner
constexpr std::size_t kEntryMemory = 512;  // of a page while it is made, beside the key, about
constexpr std::size_t kRowMemory = 320;    // of one replica's answer, beside the key, about

// What the three have in common.
struct ListQuery {
  KeyEncoding encoding;
  std::string prefix;
  std::string delimiter;
  ListStart start;
  std::size_t max_keys = 0;
  MemoryBudget::Lease memory;  // of the page that is read
};

S3Result<ListQuery> common_query(const S3Request& request) {
  ListQuery query;
  TRY(encoding, KeyEncoding::of(request));
  TRY(max_keys, page_size(request, "max-keys", limits::kListPageMax));
  query.encoding = encoding;
  query.prefix = query_text(request, "prefix");
  query.delimiter = query_text(request, "delimiter");
  query.max_keys = max_keys;
  return query;
}

S3Task<ListPage> read_page(Gateway& gateway, const S3Request& request, ListQuery& query) {
  CO_TRY(bucket, co_await open_bucket(gateway, request));
  if (query.max_keys == 0) co_return ListPage{};  // a page of no keys is never truncated
  // The answers of all replicas are there until they are merged into the page.
  constexpr std::size_t kRows = limits::kReplicasMax * (limits::kKeyBytesMax + kRowMemory);
  const std::size_t most = query.max_keys * (limits::kKeyBytesMax + kEntryMemory + kRows);
  CO_TRY(room, co_await take_list_room(gateway, request, most));
  query.memory = std::move(room.memory);
  ListRequest list;
  list.prefix = query.prefix;
  list.delimiter = query.delimiter;
  list.after = query.start.after;
  list.after_is_prefix = query.start.is_prefix;
  list.max_keys = query.max_keys;
  Index& index = gateway.index;
  S3_TRY(page, co_await index.list(std::move(bucket), std::move(list), request.deadline),
         S3Code::NoSuchBucket);
  std::size_t bytes = 0;
  for (const ListEntry& entry : page.entries) bytes += kEntryMemory + entry.key.size();
  query.memory.shrink_to(bytes);
  co_return std::move(page);
}

// At least what the page's text takes: it is reserved at once, and counted before.
std::size_t text_bytes_max(const S3Request& request, const ListQuery& query, const ListPage& page) {
  const std::size_t name_bytes = escaped_bytes_max(request.principal.display_name);
  std::size_t bytes = answer_bytes_max(request) + query.encoding.bytes_max(page.next_after) +
                      2 * page.next_after.size();
  for (const ListEntry& entry : page.entries) {
    bytes += kEntryBytes + query.encoding.bytes_max(entry.key);
    if (!entry.is_prefix) bytes += name_bytes + escaped_bytes_max(entry.summary.owner);
  }
  return bytes;
}

// Name … EncodingType, in all three.
void write_head(XmlWriter& xml, const S3Request& request, const ListQuery& query,
                const ListPage& page) {
  xml.element("Name", request.bucket);
  query.encoding.write(xml, "Prefix", query.prefix);
  if (!query.delimiter.empty()) query.encoding.write(xml, "Delimiter", query.delimiter);
  xml.element("MaxKeys", query.max_keys);
  query.encoding.write_type(xml);
  xml.boolean("IsTruncated", page.truncated);
}

void write_summary(XmlWriter& xml, const ObjectSummary& summary) {
  xml.element("LastModified", iso_date(summary.modified));
  xml.etag(summary.etag);
  if (summary.checksum_algorithm != ChecksumAlgorithm::none) {
    xml.element("ChecksumAlgorithm", s3_name(summary.checksum_algorithm));
    xml.element("ChecksumType", to_string(summary.checksum_type));
  }
  xml.element("Size", summary.size_bytes);
  xml.element("StorageClass", "STANDARD");
}

void write_contents(XmlWriter& xml, const S3Request& request, const ListQuery& query,
                    const ListPage& page, bool with_owner) {
  for (const ListEntry& entry : page.entries) {
    if (entry.is_prefix) continue;
    xml.open("Contents");
    query.encoding.write(xml, "Key", entry.key);
    write_summary(xml, entry.summary);
    if (with_owner) {
      write_owner(xml, "Owner", entry.summary.owner, request.principal.display_name);
    }
    xml.close("Contents");
  }
}

void write_common_prefixes(XmlWriter& xml, const ListQuery& query, const ListPage& page) {
  for (const ListEntry& entry : page.entries) {
    if (!entry.is_prefix) continue;
    xml.open("CommonPrefixes");
    query.encoding.write(xml, "Prefix", entry.key);
    xml.close("CommonPrefixes");
  }
}

S3Result<ListQuery> query_v2(const S3Request& request) {
  if (query_text(request, "list-type") != "2") {
    return s3_error(S3Code::InvalidArgument, "Invalid list type");
  }
  TRY(query, common_query(request));
  query.start = start_after(query_text(request, "start-after"), query.prefix, query.delimiter);
  if (const std::string token = query_text(request, "continuation-token"); !token.empty()) {
    auto start = decode_token(token);
    if (!start) {
      return s3_error(S3Code::InvalidArgument, "The continuation token provided is incorrect");
    }
    query.start = std::move(*start);
  }
  return query;
}

}  // namespace

S3Task<S3Response> list_objects(Gateway& gateway, const S3Request& request) {
  CO_TRY(query, common_query(request));
  const std::string marker = query_text(request, "marker");
  query.start = start_after(marker, query.prefix, query.delimiter);
  CO_TRY(page, co_await read_page(gateway, request, query));
  const std::size_t text_bytes = text_bytes_max(request, query, page);
  CO_TRY(memory, co_await lease_document(gateway, request, text_bytes));
  XmlWriter xml(text_bytes);
  xml.open_root("ListBucketResult");
  write_head(xml, request, query, page);
  query.encoding.write(xml, "Marker", marker);
  // Without a delimiter clients go on from the last key, unless the page ends elsewhere.
  const bool ends_elsewhere = page.entries.empty() || page.entries.back().key != page.next_after;
  if (page.truncated && (!query.delimiter.empty() || ends_elsewhere)) {
    query.encoding.write(xml, "NextMarker", page.next_after);
  }
  write_contents(xml, request, query, page, true);
  write_common_prefixes(xml, query, page);
  xml.close("ListBucketResult");
  co_return xml_response(xml, std::move(memory));
}

S3Task<S3Response> list_objects_v2(Gateway& gateway, const S3Request& request) {
  CO_TRY(query, query_v2(request));
  CO_TRY(page, co_await read_page(gateway, request, query));
  const std::size_t text_bytes = text_bytes_max(request, query, page);
  CO_TRY(memory, co_await lease_document(gateway, request, text_bytes));
  XmlWriter xml(text_bytes);
  xml.open_root("ListBucketResult");
  write_head(xml, request, query, page);
  xml.element("KeyCount", page.entries.size());
  if (const std::string* start = request.query_value("start-after")) {
    query.encoding.write(xml, "StartAfter", *start);
  }
  if (const std::string* token = request.query_value("continuation-token")) {
    xml.element("ContinuationToken", *token);
  }
  if (page.truncated) {
    const ListStart next{page.next_after, page.next_after_is_prefix};
    xml.element("NextContinuationToken", encode_token(next));
  }
  write_contents(xml, request, query, page, query_text(request, "fetch-owner") == "true");
  write_common_prefixes(xml, query, page);
  xml.close("ListBucketResult");
  co_return xml_response(xml, std::move(memory));
}

S3Task<S3Response> list_object_versions(Gateway& gateway, const S3Request& request) {
  CO_TRY(query, common_query(request));
  const std::string key_marker = query_text(request, "key-marker");
  const std::string version_marker = query_text(request, "version-id-marker");
  if (key_marker.empty() && !version_marker.empty()) {
    co_return s3_error(S3Code::InvalidArgument,
                       "A version-id marker cannot be specified without a key marker.");
  }
  query.start = start_after(key_marker, query.prefix, query.delimiter);
  CO_TRY(page, co_await read_page(gateway, request, query));
  const std::size_t text_bytes = text_bytes_max(request, query, page);
  CO_TRY(memory, co_await lease_document(gateway, request, text_bytes));
  XmlWriter xml(text_bytes);
  xml.open_root("ListVersionsResult");
  write_head(xml, request, query, page);
  query.encoding.write(xml, "KeyMarker", key_marker);
  xml.element("VersionIdMarker", version_marker);
  if (page.truncated) {
    query.encoding.write(xml, "NextKeyMarker", page.next_after);
    if (!page.next_after_is_prefix) xml.element("NextVersionIdMarker", "null");
  }
  for (const ListEntry& entry : page.entries) {
    if (entry.is_prefix) continue;
    xml.open("Version");
    query.encoding.write(xml, "Key", entry.key);
    xml.element("VersionId", "null");  // what the only version of an unversioned object is called
    xml.element("IsLatest", "true");
    write_summary(xml, entry.summary);
    write_owner(xml, "Owner", entry.summary.owner, request.principal.display_name);
    xml.close("Version");
  }
  write_common_prefixes(xml, query, page);
  xml.close("ListVersionsResult");
  co_return xml_response(xml, std::move(memory));
}

}  // namespace penstock
