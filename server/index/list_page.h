// One page of a LIST of objects: keys and common prefixes in byte order.
// A page is no snapshot; each key is linearizable by itself.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/index/bucket_catalog.h"
#include "server/index/row_walk.h"
#include "server/records/object_record.h"

namespace penstock {

struct ListRequest {
  std::string prefix;
  std::string delimiter;
  std::string after;             // keys strictly greater than this ...
  bool after_is_prefix = false;  // ... or, if `after` is a common prefix, past everything under it
  std::size_t max_keys = 1000;   // keys + common prefixes
};
// What a client's marker or start-after means: one that is exactly a common prefix of this list
// stands for everything under it (it was the NextMarker of the page before). One that lies inside
// of a common prefix stands for itself: the prefix is listed if it has a key behind the marker.
bool is_common_prefix(std::string_view marker, std::string_view prefix, std::string_view delimiter);

struct ListEntry {
  std::string key;  // object key, or the common prefix
  bool is_prefix = false;
  ObjectSummary summary;
};
struct ListPage {
  std::vector<ListEntry> entries;  // in byte order of key
  bool truncated = false;
  // Where the next page begins. The flag is what is_common_prefix() says of next_after, so that
  // clients may send it back as a marker without the flag.
  std::string next_after;
  bool next_after_is_prefix = false;
};

// Errors: unavailable - below a majority in some group; stale_bucket; timeout.
Task<ListPage> list_page(ListContext context, std::shared_ptr<const Bucket> bucket,
                         ListRequest request, Deadline deadline);

// Where a list with `prefix` that goes on behind `after` begins, inclusive; and where it ends,
// exclusive (empty = at the end of the bucket).
std::string list_start(std::string_view prefix, std::string_view after, bool after_is_prefix);

}  // namespace penstock
