#include "server/index/list_page.h"

#include <algorithm>

#include "server/records/key_range.h"

namespace penstock {
namespace {
WalkRequest walk_of(const Bucket& bucket, const ListRequest& request) {
  WalkRequest walk;
  walk.bucket = bucket.record.id;
  walk.number = bucket.record.number;
  walk.partitions = bucket.record.partitions;
  walk.prefix = request.prefix;
  walk.delimiter = request.delimiter;
  walk.start = list_start(request.prefix, request.after, request.after_is_prefix);
  walk.end = prefix_end(request.prefix);
  walk.rows_wanted = request.max_keys + 1;  // one more tells whether the page is the last
  return walk;
}

class PageBuilder {
 public:
  explicit PageBuilder(const ListRequest& request) : request_(request) {
    page_.entries.reserve(request.max_keys);
  }
  bool truncated() const { return page_.truncated; }

  // Takes one live row. Errors: corrupt.
  Result<> add(LiveRow row) {
    if (row.kind != ValueKind::object) return {};  // a delete marker hides its key
    const auto prefix = common_prefix(row.key, request_.prefix.size(), request_.delimiter);
    if (!prefix.empty() && under_last_prefix(prefix)) return {};
    if (page_.entries.size() >= request_.max_keys) {
      truncate_here();
      return {};
    }
    ListEntry entry;
    if (prefix.empty()) {
      TRY(summary, object_summary(row.summary));
      entry.summary = std::move(summary);
      entry.key = std::move(row.key);
    } else {
      entry.key = prefix;
      entry.is_prefix = true;
    }
    page_.entries.push_back(std::move(entry));
    return {};
  }
  // A page that ended at a deleted key which is just a common prefix would be taken for one that
  // has shown this prefix.
  bool may_end_at(std::string_view last_key) const {
    return !is_common_prefix(last_key, request_.prefix, request_.delimiter) ||
           under_last_prefix(last_key);
  }
  // The walk stopped at its bound: a short page. `last_key` is decided, with all before it.
  void cut(std::string last_key) {
    if (!page_.entries.empty() && page_.entries.back().key >= last_key) return truncate_here();
    if (!page_.entries.empty() && page_.entries.back().is_prefix &&
        last_key.starts_with(page_.entries.back().key)) {
      return truncate_here();
    }
    page_.truncated = true;
    page_.next_after = std::move(last_key);
  }
  ListPage take() { return std::move(page_); }

 private:
  // Several groups may each have a witness of one prefix.
  bool under_last_prefix(std::string_view prefix) const {
    return !page_.entries.empty() && page_.entries.back().is_prefix &&
           page_.entries.back().key == prefix;
  }
  void truncate_here() {
    page_.truncated = true;
    page_.next_after = page_.entries.back().key;
    page_.next_after_is_prefix = page_.entries.back().is_prefix;
  }

  const ListRequest& request_;
  ListPage page_;
};
}  // namespace

bool is_common_prefix(std::string_view marker, std::string_view prefix,
                      std::string_view delimiter) {
  if (!marker.starts_with(prefix)) return false;
  return common_prefix(marker, prefix.size(), delimiter).size() == marker.size() &&
         !marker.empty() && !delimiter.empty();
}

std::string list_start(std::string_view prefix, std::string_view after, bool after_is_prefix) {
  if (after.empty()) return std::string(prefix);
  std::string start = after_is_prefix ? prefix_end(after) : key_after(after);
  // Nothing can follow a prefix of 0xff alone.
  if (start.empty()) start = key_after(std::string(limits::kKeyBytesMax, '\xff'));
  return std::max(start, std::string(prefix));
}

Task<ListPage> list_page(ListContext context, std::shared_ptr<const Bucket> bucket,
                         ListRequest request, Deadline deadline) {
  if (request.max_keys == 0) co_return ListPage{};
  PageBuilder page(request);
  WalkRequest walk_request = walk_of(*bucket, request);
  if (!walk_request.end.empty() && walk_request.start >= walk_request.end) co_return ListPage{};
  RowWalk walk(context, std::move(walk_request));
  while (!page.truncated()) {
    if (auto row = walk.next()) {
      CO_CHECK(page.add(std::move(*row)));
      continue;
    }
    if (walk.done()) break;
    if (walk.cut() && page.may_end_at(walk.last_key())) {
      page.cut(walk.last_key());
      break;
    }
    CO_CHECK(co_await walk.fill(deadline));
  }
  co_return page.take();
}

}  // namespace penstock
