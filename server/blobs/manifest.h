// Parts of large multipart objects: more than limits::kPartsInRecordMax of them stand in pages of
// limits::kManifestPageEntries, each an immutable replicated blob that the record names.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/blobs/blobs.h"
#include "server/blobs/leases.h"

namespace penstock {

// Pages on their way into a record; keeps their leases until then.
class ManifestWriter final : public LeaseKeeper {
 public:
  // The pages belong to `owner`, an upload.
  ManifestWriter(Blobs& blobs, FragmentOwner owner) : blobs_(blobs), owner_(std::move(owner)) {}
  // Durable when it succeeds. Errors: as BlobWriter.
  Task<std::vector<ManifestPage>> write(const std::vector<PartInfo>& parts, Deadline deadline);
  Task<std::vector<FragmentId>> ensure(Deadline deadline) override;

 private:
  struct Page {
    std::unique_ptr<BlobWriter> writer;
    BlobRef blob;
  };
  Task<BlobRef> write_page(std::string bytes, Deadline deadline);
  Blobs& blobs_;
  FragmentOwner owner_;
  std::vector<Page> pages_;
};

using ManifestEntries = std::shared_ptr<const std::vector<PartInfo>>;

// Decoded pages by write-id: immutable, so never stale. Thread-safety: any thread.
class ManifestCache {
 public:
  explicit ManifestCache(Blobs& blobs) : blobs_(blobs) {}
  // Errors: as Blobs::read_whole(); corrupt - not the page that the record describes.
  Task<ManifestEntries> page(ManifestPage page, Deadline deadline);

 private:
  ManifestEntries find(WriteId id);
  void keep(WriteId id, ManifestEntries entries);

  struct Kept {
    WriteId id;
    ManifestEntries entries;
  };
  Blobs& blobs_;
  std::mutex mutex_;
  std::list<Kept> kept_;  // most recently used first; at most limits::kManifestPagesCached
  std::unordered_map<WriteId, std::list<Kept>::iterator> by_id_;
};

// Adds the ranges of `parts`, which begin at `first_offset` of the object, that lie in
// [begin, end). Pure. Empty parts have no blob and add nothing.
void append_ranges(const std::vector<PartInfo>& parts, std::uint64_t first_offset,
                   std::uint64_t begin, std::uint64_t end, std::vector<BlobRange>& ranges);
// The pages that hold bytes of [begin, end): indexes [first, last). Pure.
struct PageSpan {
  std::size_t first = 0;
  std::size_t last = 0;
};
PageSpan pages_for(const std::vector<ManifestPage>& pages, std::uint64_t begin, std::uint64_t end);

}  // namespace penstock
