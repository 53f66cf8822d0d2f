#include "server/blobs/manifest.h"

#include <algorithm>
#include <cstring>

namespace penstock {

Task<std::vector<ManifestPage>> ManifestWriter::write(const std::vector<PartInfo>& parts,
                                                      Deadline deadline) {
  std::vector<ManifestPage> pages;
  std::uint64_t offset = 0;
  for (std::size_t first = 0; first < parts.size(); first += limits::kManifestPageEntries) {
    const std::size_t last = std::min(first + limits::kManifestPageEntries, parts.size());
    const std::vector<PartInfo> entries(parts.begin() + static_cast<std::ptrdiff_t>(first),
                                        parts.begin() + static_cast<std::ptrdiff_t>(last));
    ManifestPage page;
    page.first_offset = offset;
    page.first_part_index = static_cast<std::uint16_t>(first);
    page.entries = static_cast<std::uint16_t>(entries.size());
    std::string bytes = encode_manifest_page(entries);
    CO_TRY(blob, co_await write_page(std::move(bytes), deadline));
    page.blob = std::move(blob);
    pages.push_back(std::move(page));
    for (const PartInfo& part : entries) offset += part.size_bytes;
  }
  co_return pages;
}

Task<BlobRef> ManifestWriter::write_page(std::string bytes, Deadline deadline) {
  CO_TRY(writer, co_await blobs_.write_replicated(owner_, bytes.size(), deadline));
  std::size_t written = 0;
  while (written < bytes.size()) {
    CO_TRY(space, co_await writer->space());
    const std::size_t count = std::min(space.size(), bytes.size() - written);
    std::memcpy(space.data(), bytes.data() + written, count);
    CO_CHECK(co_await writer->filled(count));
    written += count;
  }
  CO_TRY(blob, co_await writer->commit(deadline));
  Page page;
  page.writer = std::move(writer);
  page.blob = blob;
  pages_.push_back(std::move(page));
  co_return blob;
}

Task<std::vector<FragmentId>> ManifestWriter::ensure(Deadline deadline) {
  std::vector<FragmentId> missing;
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    CO_TRY(lost, co_await pages_[i].writer->ensure_leases(pages_[i].blob, deadline));
    leave_out(pages_[i].blob, lost);  // also of later tries
    missing.insert(missing.end(), lost.begin(), lost.end());
  }
  co_return missing;
}

ManifestEntries ManifestCache::find(WriteId id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return found->second->entries;
}

void ManifestCache::keep(WriteId id, ManifestEntries entries) {
  const std::lock_guard lock(mutex_);
  if (by_id_.contains(id)) return;  // another request read it meanwhile
  kept_.push_front(Kept{id, std::move(entries)});
  by_id_[id] = kept_.begin();
  if (kept_.size() > limits::kManifestPagesCached) {
    by_id_.erase(kept_.back().id);
    kept_.pop_back();
  }
}

Task<ManifestEntries> ManifestCache::page(ManifestPage page, Deadline deadline) {
  if (auto known = find(page.blob.write_id)) co_return known;
  CO_TRY(bytes, co_await blobs_.read_whole(page.blob, deadline));
  CO_TRY(entries, decode_manifest_page(bytes));
  if (entries.size() != page.entries) {
    co_return fail(Errc::corrupt, "a manifest page with another number of parts");
  }
  auto shared = std::make_shared<const std::vector<PartInfo>>(std::move(entries));
  keep(page.blob.write_id, shared);
  co_return shared;
}

void append_ranges(const std::vector<PartInfo>& parts, std::uint64_t first_offset,
                   std::uint64_t begin, std::uint64_t end, std::vector<BlobRange>& ranges) {
  if (begin >= end) return;
  std::uint64_t offset = first_offset;
  for (const PartInfo& part : parts) {
    const std::uint64_t part_end = offset + part.size_bytes;
    if (offset >= end) break;
    if (part_end > begin && part.blob) {
      BlobRange range;
      range.blob = *part.blob;
      range.offset = begin > offset ? begin - offset : 0;
      range.length = std::min(end, part_end) - offset - range.offset;
      ranges.push_back(std::move(range));
    }
    offset = part_end;
  }
}

PageSpan pages_for(const std::vector<ManifestPage>& pages, std::uint64_t begin, std::uint64_t end) {
  PageSpan span;
  if (begin >= end) return span;
  while (span.last < pages.size() && pages[span.last].first_offset < end) ++span.last;
  // The last page that begins at or before `begin` is the first that can hold it.
  for (std::size_t i = 0; i < span.last; ++i) {
    if (pages[i].first_offset <= begin) span.first = i;
  }
  return span;
}

}  // namespace penstock
