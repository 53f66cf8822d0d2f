#include "tests/sim/blob_stage.h"

#include "tests/fake/write_text.h"

namespace penstock::sim {
namespace {

Task<StoredBlob> write_blob(Blobs* blobs, FragmentOwner owner, Deadline deadline) {
  StoredBlob stored;
  CO_TRY(writer, co_await blobs->write(std::move(owner), kBlobBody.size(), deadline));
  stored.writer = std::move(writer);
  CO_CHECK(co_await write_text(*stored.writer, kBlobBody));
  CO_TRY(blob, co_await stored.writer->commit(deadline));
  stored.blob = std::move(blob);
  co_return std::move(stored);
}

}  // namespace

ObjectRecord StoredBlob::record() const {
  PartInfo part;
  part.size_bytes = kBlobBody.size();
  part.blob = blob;
  ObjectRecord record;
  record.size_bytes = kBlobBody.size();
  record.etag = hex_md5(kBlobBody);
  record.parts.push_back(std::move(part));
  return record;
}

std::optional<StoredBlob> store_blob(Stage& stage, const std::string& key) {
  Blobs& blobs = stage.gateway(0).blobs();
  auto stored = stage.wait(write_blob(&blobs, Index::owner(stage.bucket(), key), stage.until()));
  stage.expect(stored.has_value(), "a blob is not stored");
  if (!stored) return std::nullopt;
  return std::move(*stored);
}

std::size_t fragments_there(Stage& stage, const BlobRef& blob) {
  std::size_t there = 0;
  for (std::size_t i = 0; i < stage.volumes(); ++i) {
    const auto client = stage.volume(i).current();
    if (!client) continue;
    const auto listed =
        stage.wait(client->list_fragments(std::nullopt, limits::kFragmentListMax, stage.until()));
    if (!listed) continue;
    there += static_cast<std::size_t>(std::count_if(
        listed->begin(), listed->end(),
        [&](const FragmentEntry& entry) { return entry.id.write_id == blob.write_id; }));
  }
  return there;
}

std::size_t hints_there(Stage& stage) {
  std::size_t there = 0;
  for (std::size_t i = 0; i < stage.volumes(); ++i) {
    HintListRequest request;
    request.due_until = WallTime::max();
    const auto client = stage.volume(i).current();
    if (!client) continue;
    const auto listed = stage.wait(client->list_hints(std::move(request), stage.until()));
    if (listed) there += listed->hints.size();
  }
  return there;
}

}  // namespace penstock::sim
