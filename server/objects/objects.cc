#include "server/objects/objects.h"

#include "penstock/planted.h"
#include "server/blobs/manifest.h"
#include "server/objects/object_updates.h"

namespace penstock {
namespace {
Result<ObjectRead> read_from(Snapshot now) {
  if (now.kind() != ValueKind::object) return fail(Errc::not_found, "no such object");
  TRY(record, object_record(*now.value));
  ObjectRead read;
  read.record = std::move(record);
  read.inline_bytes = std::move(now.inline_bytes);
  read.op_id = now.op_id();
  return read;
}

ReadWant wanted(bool with_inline) {
  return with_inline ? ReadWant::value_and_inline : ReadWant::value;
}
}  // namespace

struct Objects::State {
  State(Proposer& proposer_in, Blobs& blobs, Clock& clock_in, Duration hint_delay_in)
      : proposer(proposer_in), clock(clock_in), hint_delay(hint_delay_in), manifests(blobs) {}

  UpdateFrame frame(RegisterRef object, LeaseKeeper* leases, Deadline deadline) {
    return UpdateFrame{
        proposer, std::move(object), proposer.new_op_id(), clock.wall() + hint_delay, deadline,
        leases};
  }

  Proposer& proposer;
  Clock& clock;
  const Duration hint_delay;
  ManifestCache manifests;
};

Objects::Objects(Proposer& proposer, Blobs& blobs, Clock& clock, Duration hint_delay)
    : state_(std::make_unique<State>(proposer, blobs, clock, hint_delay)) {}
Objects::~Objects() = default;

Task<ObjectRead> Objects::get(const Bucket& bucket, std::string key, bool with_inline,
                              Deadline deadline) {
  const RegisterRef ref = Index::object(bucket, std::move(key));
  CO_TRY(now, co_await state_->proposer.read(ref, wanted(with_inline), deadline));
  co_return read_from(std::move(now));
}

std::optional<Result<ObjectRead>> Objects::get_now(const Bucket& bucket, const std::string& key,
                                                   bool with_inline) {
  auto now = state_->proposer.read_now(Index::object(bucket, key), wanted(with_inline));
  if (!now) return std::nullopt;
  return read_from(std::move(*now));
}

Task<> Objects::fast_check(const Bucket& bucket, std::string key, Condition condition) {
  if (condition.empty()) co_return Result<>{};
  const RegisterRef ref = Index::object(bucket, std::move(key));
  const Deadline patience = state_->clock.boot() + limits::kFastCondition;
  auto now = co_await state_->proposer.read(ref, ReadWant::value, patience);
  if (!now) co_return Result<>{};  // the check at the prepare decides
  co_return condition.check(*now);
}

Task<ObjectRecord> Objects::put(const Bucket& bucket, std::string key, ObjectRecord record,
                                SharedBytes inline_bytes, Condition condition, Deadline deadline,
                                LeaseKeeper* leases) {
  const RegisterRef ref = Index::object(bucket, std::move(key));
  if (leases != nullptr && !holds(Rule::lease_after_promise)) {
    CO_CHECK(co_await leases->ensure(deadline));
    leases = nullptr;
  }
  PutObject update(state_->frame(ref, leases, deadline), std::move(record), std::move(inline_bytes),
                   std::move(condition));
  CO_CHECK(co_await state_->proposer.update(ref, update, deadline));
  co_return std::move(update.record());
}

Task<ObjectRecord> Objects::replace_metadata(const Bucket& bucket, std::string key, OpId expected,
                                             ObjectRecord record, Deadline deadline) {
  const RegisterRef ref = Index::object(bucket, std::move(key));
  // Inline bytes lie under the op-id that wrote them: the new value needs its own copy.
  CO_TRY(now, co_await state_->proposer.read(ref, ReadWant::value_and_inline, deadline));
  if (now.op_id() != expected || now.kind() != ValueKind::object) {
    co_return fail(Errc::precondition, "the object changed");
  }
  if (now.value->inline_bytes != 0 && !now.inline_bytes) {
    co_return fail(Errc::unavailable, "the object's bytes could not be read");
  }
  ReplaceMetadata update(state_->frame(ref, nullptr, deadline), expected, std::move(record),
                         std::move(now.inline_bytes));
  CO_CHECK(co_await state_->proposer.update(ref, update, deadline));
  co_return std::move(update.record());
}

Task<> Objects::remove(const Bucket& bucket, std::string key, Condition condition,
                       Deadline deadline) {
  const RegisterRef ref = Index::object(bucket, std::move(key));
  RemoveObject update(state_->frame(ref, nullptr, deadline), std::move(condition));
  CO_CHECK(co_await state_->proposer.update(ref, update, deadline));
  co_return Result<>{};
}

Task<std::vector<PartInfo>> Objects::parts(const ObjectRecord& record, Deadline deadline) {
  if (record.manifest.empty()) co_return record.parts;
  const std::vector<ManifestPage> pages = record.manifest;
  std::vector<PartInfo> all;
  all.reserve(record.part_count);
  for (const ManifestPage& page : pages) {
    CO_TRY(entries, co_await state_->manifests.page(page, deadline));
    all.insert(all.end(), entries->begin(), entries->end());
  }
  co_return all;
}

std::optional<std::vector<BlobRange>> Objects::ranges_now(const ObjectRecord& record,
                                                          std::uint64_t offset,
                                                          std::uint64_t length) {
  if (!record.manifest.empty()) return std::nullopt;
  std::vector<BlobRange> found;
  // The one part of a plain object may leave its size to the record.
  if (record.part_count == 0 && record.parts.size() == 1) {
    if (length == 0 || !record.parts.front().blob) return found;
    BlobRange range;
    range.blob = *record.parts.front().blob;
    range.offset = offset;
    range.length = length;
    found.push_back(std::move(range));
    return found;
  }
  append_ranges(record.parts, 0, offset, offset + length, found);
  return found;
}

Task<std::vector<BlobRange>> Objects::ranges(const ObjectRecord& record, std::uint64_t offset,
                                             std::uint64_t length, Deadline deadline) {
  if (auto found = ranges_now(record, offset, length)) co_return std::move(*found);
  const std::vector<ManifestPage> pages = record.manifest;
  const std::uint64_t end = offset + length;
  const PageSpan span = pages_for(pages, offset, end);
  std::vector<BlobRange> found;
  for (std::size_t i = span.first; i < span.last; ++i) {
    CO_TRY(entries, co_await state_->manifests.page(pages[i], deadline));
    append_ranges(*entries, pages[i].first_offset, offset, end, found);
  }
  co_return found;
}

}  // namespace penstock
