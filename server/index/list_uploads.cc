#include "server/index/list_uploads.h"

#include <algorithm>

#include "penstock/row_key.h"
#include "server/index/list_page.h"
#include "server/records/key_range.h"

namespace penstock {
namespace {
// Rows of parts come whole: those of one scan are to take less than a megabyte.
constexpr std::size_t kPartBatchMax = 1024;

bool marks_prefix(const UploadListRequest& request) {
  return request.upload_id_marker.empty() &&
         is_common_prefix(request.key_marker, request.prefix, request.delimiter);
}

// A finished upload is a live row as well, so volumes cannot pick witnesses of common prefixes
// here: prefixes are formed on this side.
WalkRequest upload_walk_of(const Bucket& bucket, const UploadListRequest& request) {
  WalkRequest walk;
  walk.bucket = bucket.record.id;
  walk.number = bucket.record.number;
  walk.partitions = bucket.record.partitions;
  walk.kind = RowKind::upload;
  walk.prefix = request.prefix;
  walk.end = prefix_end(request.prefix);
  walk.rows_wanted = request.max_uploads + 1;
  if (marks_prefix(request)) {
    walk.start = list_start(request.prefix, request.key_marker, true);
  } else {
    std::string after = request.key_marker;
    if (!request.upload_id_marker.empty()) {
      after = upload_suffix(request.key_marker, request.upload_id_marker);
    }
    walk.start = list_start(request.prefix, after, false);
  }
  return walk;
}

class UploadPageBuilder {
 public:
  explicit UploadPageBuilder(const UploadListRequest& request) : request_(request) {}
  bool truncated() const { return page_.truncated; }

  // Errors: corrupt.
  Result<> add(const LiveRow& row) {
    if (!is_open_upload(row.kind)) return {};
    TRY(name, register_of_suffix(RowKind::upload, BucketId{}, row.key));
    // Upload rows of the marker's own key sort behind the marker.
    if (request_.upload_id_marker.empty() && name.key == request_.key_marker) return {};
    if (!name.key.starts_with(request_.prefix)) return {};
    const auto prefix = common_prefix(name.key, request_.prefix.size(), request_.delimiter);
    const bool known = !prefix.empty() && !page_.entries.empty() &&
                       page_.entries.back().is_prefix && page_.entries.back().key == prefix;
    if (known) return {};
    if (page_.entries.size() >= request_.max_uploads) {
      truncate_here();
      return {};
    }
    UploadEntry entry;
    if (prefix.empty()) {
      TRY(record, upload_summary(row.summary));
      entry.record = std::move(record);
      entry.key = std::move(name.key);
      entry.upload_id = std::move(name.upload_id);
    } else {
      entry.key = prefix;
      entry.is_prefix = true;
    }
    page_.entries.push_back(std::move(entry));
    return {};
  }
  // The walk stopped at its bound. `last_row_key` is decided, with all before it; so is what was
  // shown behind it, of a group that is further on.
  Result<> cut(const std::string& last_row_key) {
    if (!page_.entries.empty() && has_shown(last_row_key)) {
      truncate_here();
      return {};
    }
    TRY(name, register_of_suffix(RowKind::upload, BucketId{}, last_row_key));
    page_.truncated = true;
    page_.next_key = std::move(name.key);
    page_.next_upload_id = std::move(name.upload_id);
    return {};
  }
  UploadPage take() { return std::move(page_); }

 private:
  bool has_shown(std::string_view row_key) const {
    const UploadEntry& last = page_.entries.back();
    if (last.is_prefix) return last.key >= row_key || row_key.starts_with(last.key);
    return upload_suffix(last.key, last.upload_id) >= row_key;
  }
  void truncate_here() {
    page_.truncated = true;
    page_.next_key = page_.entries.back().key;
    page_.next_upload_id = page_.entries.back().upload_id;
  }

  const UploadListRequest& request_;
  UploadPage page_;
};
}  // namespace

Task<UploadPage> list_upload_page(ListContext context, std::shared_ptr<const Bucket> bucket,
                                  UploadListRequest request, Deadline deadline) {
  if (request.max_uploads == 0) co_return UploadPage{};
  WalkRequest walk_request = upload_walk_of(*bucket, request);
  if (!walk_request.end.empty() && walk_request.start >= walk_request.end) {
    co_return UploadPage{};
  }
  UploadPageBuilder page(request);
  RowWalk walk(context, std::move(walk_request));
  while (!page.truncated()) {
    if (const auto row = walk.next()) {
      CO_CHECK(page.add(*row));
      continue;
    }
    if (walk.done()) break;
    if (walk.cut()) {
      CO_CHECK(page.cut(walk.last_key()));
      break;
    }
    CO_CHECK(co_await walk.fill(deadline));
  }
  co_return page.take();
}

Task<std::vector<PartInfo>> list_upload_parts(ListContext context, const Bucket& bucket,
                                              std::string key, std::string upload_id, PartSpan span,
                                              Deadline deadline) {
  constexpr std::size_t kPartNumberBytes = 2;
  std::vector<PartInfo> parts;
  if (span.most == 0 || span.after >= limits::kPartsMax) co_return parts;
  WalkRequest request;
  request.bucket = bucket.record.id;
  request.number = bucket.record.number;
  request.partitions = bucket.record.partitions;
  request.kind = RowKind::part;
  request.prefix = upload_suffix(key, upload_id);
  request.start = request.prefix;
  const auto first = static_cast<std::uint16_t>(span.after + 1);
  request.start.push_back(static_cast<char>(first >> 8));
  request.start.push_back(static_cast<char>(first & 0xff));
  request.end = prefix_end(request.prefix);
  request.one_key = key;
  request.rows_wanted = span.most;
  request.batch_max = kPartBatchMax;
  request.payloads = true;
  request.bounded = false;  // by the number of parts
  const std::size_t row_bytes = request.prefix.size() + kPartNumberBytes;
  RowWalk walk(context, std::move(request));
  while (parts.size() < span.most) {
    const auto row = walk.next();
    if (!row) {
      if (walk.done()) break;
      CO_CHECK(co_await walk.fill(deadline));
      continue;
    }
    // A longer row belongs to an upload of another key that begins with this key and upload-id.
    if (row->kind != ValueKind::part || row->key.size() != row_bytes) continue;
    CO_TRY(name, register_of_suffix(RowKind::part, bucket.record.id, row->key));
    CO_TRY(value, decode_value(name, row->summary));
    CO_TRY(part, part_info(value));
    part.number = name.part;
    parts.push_back(std::move(part));
  }
  co_return parts;
}

}  // namespace penstock
