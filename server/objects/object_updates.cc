#include "server/objects/object_updates.h"

#include <algorithm>

#include "penstock/byte_codec.h"
#include "penstock/planted.h"
#include "server/objects/upload_moves.h"

namespace penstock {
namespace {
using Decision = RegisterUpdate::Decision;

// Makes sure that the upload which `current` carries is done. True: it is; false: the upload or the
// object was moved, so the promise in hand may be worth nothing: prepare again.
// The object is settled first: an unsettled record may still vanish, and `done` would then promise
// an object that never was.
Task<bool> close_carried_upload(const UpdateFrame& frame, const Snapshot& current) {
  if (current.kind() != ValueKind::object) co_return true;
  CO_TRY(record, object_record(*current.value));
  if (record.upload_id.empty() || !holds(Rule::done_first)) co_return true;
  const auto attempt = decode_attempt(record.attempt);
  if (!attempt) co_return fail(Errc::corrupt, "a malformed attempt in an object's record");
  RegisterRef upload = frame.object;
  upload.key.kind = RowKind::upload;
  upload.key.upload_id = record.upload_id;
  CO_TRY(now, co_await frame.proposer.read(upload, ReadWant::value, frame.deadline));
  const bool closing =
      now.kind() == ValueKind::upload_completing || now.kind() == ValueKind::upload_reopening;
  if (!closing) co_return true;
  if (!current.settled && holds(Rule::settled_before_done)) {
    CO_TRY(settled, co_await frame.proposer.write_back(frame.object, WriteBack::if_needed, false,
                                                       frame.deadline));
    if (settled.op_id() != current.op_id()) co_return false;
  }
  // Parts that the object does not name are left to the sweep.
  std::vector<Hint> none;
  CO_CHECK(co_await finish_done(frame.proposer, std::move(upload), *attempt, std::move(none),
                                frame.deadline));
  co_return false;
}
}  // namespace

std::string encode_attempt(OpId attempt) {
  std::string bytes;
  ByteWriter(bytes).id(attempt);
  return bytes;
}

std::optional<OpId> decode_attempt(std::string_view bytes) {
  ByteReader in(bytes);
  const auto attempt = in.id<OpId>();
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return attempt;
}

Result<std::vector<Hint>> freed_by(const Snapshot& current, const RegisterValue& next,
                                   WallTime due) {
  std::vector<Hint> hints;
  if (!current.live()) return hints;
  TRY(before, blobs_of(*current.value));
  if (before.empty()) return hints;
  TRY(after, blobs_of(next));
  std::string upload_id;
  std::vector<ManifestPage> pages;
  if (current.kind() == ValueKind::object) {
    TRY(record, object_record(*current.value));
    upload_id = std::move(record.upload_id);
    pages = std::move(record.manifest);
  }
  for (BlobRef& blob : before) {
    blob.manifest_page = std::any_of(pages.begin(), pages.end(), [&blob](const auto& page) {
      return page.blob.write_id == blob.write_id;
    });
    const bool kept = std::any_of(after.begin(), after.end(), [&blob](const BlobRef& other) {
      return other.write_id == blob.write_id;
    });
    if (!kept || !holds(Rule::freed_difference)) hints.push_back(hint_for(blob, due, upload_id));
  }
  return hints;
}

Decision refuse(Error error) {
  Decision decision;
  decision.action = Decision::Action::refuse;
  decision.error = std::move(error);
  return decision;
}

Result<Decision> write_object(const Snapshot& current, ObjectRecord& record, WallTime modified,
                              SharedBytes inline_bytes) {
  record.modified = modified;
  if (current.kind() == ValueKind::object) {
    TRY(before, object_summary(current.value->summary));
    record.modified = std::max(before.modified, modified);
  }
  Decision decision;
  decision.action = Decision::Action::write;
  const std::size_t inline_length = inline_bytes ? inline_bytes->size() : 0;
  decision.value = to_value(record, static_cast<std::uint32_t>(inline_length));
  decision.inline_bytes = std::move(inline_bytes);
  return decision;
}

Task<std::optional<Decision>> ObjectUpdate::look_beside() { co_return std::optional<Decision>(); }

Task<Decision> ObjectUpdate::decide(const Snapshot& current) {
  refusal_.reset();
  auto decision = co_await decide_on(current);
  if (decision && decision->action == Decision::Action::refuse) refusal_ = decision->error;
  co_return decision;
}

Task<Decision> ObjectUpdate::decide_on(const Snapshot& current) {
  CO_TRY(ended, co_await look_beside());
  if (ended) co_return std::move(*ended);
  CO_TRY(decision, judge(current));
  if (decision.action != Decision::Action::write) co_return decision;
  CO_TRY(closed, co_await close_carried_upload(frame_, current));
  if (!closed) {
    Decision again;
    again.action = Decision::Action::restart;
    co_return again;
  }
  if (frame_.leases != nullptr) {
    // R10: after the promise of the round that will be accepted.
    CO_TRY(lost, co_await frame_.leases->ensure(frame_.deadline));
    if (!lost.empty()) {
      drop_fragments(lost);
      CO_TRY(again, judge(current));
      decision = std::move(again);
    }
  }
  CO_TRY(hints, freed_by(current, decision.value, frame_.hints_due));
  decision.hints = std::move(hints);
  co_return decision;
}

Result<Decision> PutObject::judge(const Snapshot& current) {
  const auto met = condition_.check(current);
  if (!met && holds(Rule::condition_at_promise)) return refuse(met.error());
  return write_object(current, record_, modified_, inline_bytes_);
}

void PutObject::drop_fragments(const std::vector<FragmentId>& lost) {
  for (PartInfo& part : record_.parts) {
    if (part.blob) leave_out(*part.blob, lost);
  }
}

Result<Decision> ReplaceMetadata::judge(const Snapshot& current) {
  if (current.op_id() != expected_ || current.kind() != ValueKind::object) {
    return refuse(fail(Errc::precondition, "the object changed"));
  }
  TRY(record, object_record(*current.value));
  written_ = std::move(record);  // its locations may have been repaired since it was read
  written_.etag = wanted_.etag;
  written_.owner = wanted_.owner;
  written_.checksums = wanted_.checksums;
  written_.headers = wanted_.headers;
  written_.upload_id.clear();  // that upload is done by then
  written_.attempt.clear();
  return write_object(current, written_, wanted_.modified, inline_bytes_);
}

Result<Decision> RemoveObject::judge(const Snapshot& current) {
  if (auto met = condition_.check(current); !met) return refuse(met.error());
  Decision decision;
  decision.action = current.live() ? Decision::Action::write : Decision::Action::keep;
  decision.value = tombstone_value();
  return decision;
}

}  // namespace penstock
