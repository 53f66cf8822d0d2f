// Pages of the uploads that are under way in a bucket, and the parts of one upload.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/limits.h"
#include "server/index/bucket_catalog.h"
#include "server/index/row_walk.h"

namespace penstock {

struct UploadEntry {
  std::string key;  // or the common prefix
  std::string upload_id;
  UploadRecord record;  // owner, initiated and checksum fields
  bool is_prefix = false;
};
struct UploadPage {
  std::vector<UploadEntry> entries;
  bool truncated = false;
  std::string next_key;  // with next_upload_id: the markers of the next page
  std::string next_upload_id;
};
struct UploadListRequest {
  std::string prefix, delimiter;
  // Uploads behind (key_marker, upload_id_marker); without an upload-id: behind all of that key, or
  // of that common prefix.
  std::string key_marker, upload_id_marker;
  std::size_t max_uploads = 1000;
};

// Uploads that are open, completing or reopening, by key, then by upload-id.
// Errors: unavailable; stale_bucket; timeout.
Task<UploadPage> list_upload_page(ListContext context, std::shared_ptr<const Bucket> bucket,
                                  UploadListRequest request, Deadline deadline);

// Which parts of an upload; all by default.
struct PartSpan {
  std::uint16_t after = 0;  // those with higher numbers
  std::size_t most = limits::kPartsMax;
};
// Live parts of one upload, ascending. Errors: as above.
Task<std::vector<PartInfo>> list_upload_parts(ListContext context, const Bucket& bucket,
                                              std::string key, std::string upload_id, PartSpan span,
                                              Deadline deadline);

}  // namespace penstock
