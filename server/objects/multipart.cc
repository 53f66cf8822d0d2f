#include "server/objects/multipart.h"

#include <algorithm>
#include <array>

#include "penstock/planted.h"
#include "penstock/row_key.h"
#include "server/blobs/manifest.h"
#include "server/objects/upload_moves.h"

namespace penstock {
namespace {
using How = AttemptEnd::How;

constexpr Duration kBackoffFirst = std::chrono::milliseconds(10);
constexpr Duration kBackoffLast = std::chrono::milliseconds(500);
constexpr int kPartTriesMax = 3;

// A bound is told at once: who came here only adds to what is too much already.
bool is_final(const Error& error) { return !is_passing(error) || error.code == Errc::overloaded; }

UploadName upload_name(const Bucket& bucket, std::string key, std::string upload_id) {
  UploadName name;
  name.bucket = std::make_shared<const Bucket>(bucket);
  name.key = std::move(key);
  name.upload_id = std::move(upload_id);
  return name;
}

Error no_such_upload() { return fail(Errc::upload_not_open, "no such upload"); }

std::string new_upload_id(Random& random) {
  constexpr std::size_t kBitsPerCharacter = 5;
  std::array<std::byte, 20> bits;
  random.fill(bits);
  std::string id;
  unsigned window = 0;
  std::size_t in_window = 0;
  for (const std::byte byte : bits) {
    window = window << 8 | std::to_integer<unsigned>(byte);
    for (in_window += 8; in_window >= kBitsPerCharacter; in_window -= kBitsPerCharacter) {
      id.push_back(kUploadIdAlphabet[window >> (in_window - kBitsPerCharacter) & 31]);
    }
  }
  return id;
}

// Hints of parts that nobody names any more, until all replicas have them. Where there is no memory
// for them the parts are left to the sweep: an upload must be able to end.
Result<MemoryBudget::Lease> room_for_hints(const ApplyContext& context, MemoryAccount account,
                                           std::size_t count) {
  constexpr std::size_t kHintMemory = 8 * limits::kKiB;  // on their way to all replicas
  if (context.memory == nullptr || count == 0) return MemoryBudget::Lease();
  return context.memory->take(MemoryUser{MemoryUse::documents, account}, count * kHintMemory);
}

class CreateUpload final : public RegisterUpdate {
 public:
  CreateUpload(UploadRecord record, OpId op_id) : record_(std::move(record)), op_id_(op_id) {}
  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.error = fail(Errc::invalid, "the upload-id is taken");
    if (current.live()) co_return decision;
    decision.action = Decision::Action::write;
    decision.value = to_value(record_, ValueKind::upload_open);
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }

 private:
  UploadRecord record_;
  OpId op_id_;
};

class PutPart final : public RegisterUpdate {
 public:
  PutPart(PartInfo part, std::string upload_id, LeaseKeeper* leases, WallTime due,
          Deadline deadline, OpId op_id)
      : part_(std::move(part)),
        upload_id_(std::move(upload_id)),
        leases_(leases),
        due_(due),
        deadline_(deadline),
        op_id_(op_id) {}
  Task<Decision> decide(const Snapshot& current) override {
    if (leases_ != nullptr && part_.blob) {
      CO_TRY(lost, co_await leases_->ensure(deadline_));
      leave_out(*part_.blob, lost);
    }
    Decision decision;
    decision.action = Decision::Action::write;
    decision.value = to_value(part_);
    CO_TRY(hints, freed_by(current, decision.value, due_));
    // With the upload-id: removed only after the upload has ended, so that a Complete which has
    // read the replaced part can still be applied.
    for (Hint& hint : hints) hint.upload_id = holds(Rule::part_hint_upload) ? upload_id_ : "";
    decision.hints = std::move(hints);
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }

 private:
  PartInfo part_;
  std::string upload_id_;
  LeaseKeeper* leases_;
  WallTime due_;
  Deadline deadline_;
  OpId op_id_;
};

// The stored answer of a finished upload, if `digest` is of the same Complete.
Result<std::optional<Multipart::Answer>> stored_answer(const UploadRecord& upload,
                                                       const std::string& digest) {
  const bool same = upload.complete_digest == digest || !holds(Rule::manifest_compared);
  if (!same) return no_such_upload();
  std::optional<Multipart::Answer> answer(std::in_place);
  if (upload.target) answer->record = *upload.target;
  answer->record.etag = upload.etag;
  return answer;
}
}  // namespace

Task<std::string> Multipart::create(const Bucket& bucket, std::string key, UploadRecord record,
                                    Deadline deadline) {
  std::string id = new_upload_id(random_);
  const RegisterRef ref = Index::upload(bucket, std::move(key), id);
  CreateUpload update(std::move(record), context_.proposer.new_op_id());
  CO_CHECK(co_await context_.proposer.update(ref, update, deadline));
  co_return std::move(id);
}

Task<UploadRecord> Multipart::open(const Bucket& bucket, std::string key, std::string upload_id,
                                   Deadline deadline) {
  return open_named(upload_name(bucket, std::move(key), std::move(upload_id)), deadline);
}

Task<UploadRecord> Multipart::open_named(UploadName name, Deadline deadline) {
  const RegisterRef ref = name.upload();
  CO_TRY(now, co_await context_.proposer.read(ref, ReadWant::value, deadline));
  if (now.kind() != ValueKind::upload_open) co_return no_such_upload();
  co_return upload_record(*now.value);
}

Task<> Multipart::put_part(const Bucket& bucket, std::string key, std::string upload_id,
                           PartInfo part, Deadline deadline, LeaseKeeper* leases) {
  const UploadName name = upload_name(bucket, std::move(key), std::move(upload_id));
  const RegisterRef ref = Index::part(*name.bucket, name.key, name.upload_id, part.number);
  const WallTime due = context_.hints_due();
  PutPart update(part, name.upload_id, leases, due, deadline, context_.proposer.new_op_id());
  for (int tries = 1;; ++tries) {
    auto stored = co_await context_.proposer.update(ref, update, deadline);
    if (stored) co_return Result<>{};
    const Errc code = stored.error().code;
    if (code != Errc::upload_missing && code != Errc::upload_not_open) co_return stored.error();
    // The read hands the row of an open upload to replicas that lack it.
    CO_CHECK(co_await open_named(name, deadline));
    if (tries == kPartTriesMax) co_return fail(Errc::unavailable, "replicas lack the upload");
  }
}

Task<> Multipart::back_off(Duration& backoff, Deadline deadline) {
  if (context_.clock.boot() + backoff >= deadline) {
    co_return fail(Errc::unknown_outcome, "the upload is being moved by others");
  }
  co_await context_.clock.sleep_until(context_.clock.boot() + backoff);
  backoff = std::min(backoff * 2, kBackoffLast);
  co_return Result<>{};
}

Task<Multipart::Answer> Multipart::complete(const Bucket& bucket, std::string key,
                                            std::string upload_id, CompleteRequest request,
                                            Deadline deadline, MemoryAccount account) {
  UploadName name = upload_name(bucket, std::move(key), std::move(upload_id));
  name.account = account;
  const std::string digest = complete_digest(request);
  Duration backoff = kBackoffFirst;
  for (;;) {
    auto step = co_await complete_step(name, request, digest, deadline);
    if (step && *step) co_return std::move(**step);
    if (!step && is_final(step.error())) co_return step.error();
    CO_CHECK(co_await back_off(backoff, deadline));
  }
}

Task<std::optional<Multipart::Answer>> Multipart::complete_step(UploadName name,
                                                                const CompleteRequest& request,
                                                                const std::string& digest,
                                                                Deadline deadline) {
  const RegisterRef ref = name.upload();
  CO_TRY(now, co_await context_.proposer.read(ref, ReadWant::value, deadline));
  if (!now.live() || now.kind() == ValueKind::upload_aborted) co_return no_such_upload();
  CO_TRY(upload, upload_record(*now.value));
  switch (now.kind()) {
    case ValueKind::upload_done:
      co_return stored_answer(upload, digest);
    case ValueKind::upload_completing:
      co_return co_await join_attempt(name, std::move(upload), digest, deadline);
    case ValueKind::upload_reopening:
      CO_CHECK(co_await give_up_attempt(context_, name, upload.attempt, deadline));
      co_return std::optional<Answer>();
    default:
      co_return co_await complete_open(name, std::move(upload), now.ballot, request, digest,
                                       deadline);
  }
}

// Someone's attempt is under way: it is driven on, whoever began it.
Task<std::optional<Multipart::Answer>> Multipart::join_attempt(UploadName name, UploadRecord upload,
                                                               const std::string& digest,
                                                               Deadline deadline) {
  CO_TRY(end, co_await apply_attempt(context_, name, upload.attempt, nullptr, deadline));
  if (end.how == How::given_up && upload.complete_digest == digest) co_return std::move(end.why);
  co_return std::optional<Answer>();
}

Task<std::optional<Multipart::Answer>> Multipart::complete_open(UploadName name,
                                                                UploadRecord upload, Ballot seen,
                                                                const CompleteRequest& request,
                                                                const std::string& digest,
                                                                Deadline deadline) {
  CO_TRY(stored, co_await read_parts(context_, name, deadline));
  CompletePlan plan = plan_complete(upload, std::move(stored.parts), request);
  std::optional<Answer> answer(std::in_place);
  answer->fault = plan.fault;
  answer->fault_part = plan.fault_part;
  answer->fault_bytes = plan.fault_bytes;
  if (plan.fault != PartFault::none) co_return answer;

  const RegisterRef object = name.object();
  CO_TRY(before, co_await context_.proposer.read(object, ReadWant::value, deadline));
  CO_CHECK(request.condition.check(before));  // saves an attempt that would have to be given up
  ManifestWriter manifest(blobs_, Index::owner(*name.bucket, name.key, name.upload_id));
  if (plan.parts.size() > limits::kPartsInRecordMax) {
    CO_TRY(pages, co_await manifest.write(plan.parts, deadline));
    plan.target.manifest = std::move(pages);
  } else {
    plan.target.parts = std::move(plan.parts);
  }
  plan.target.modified = context_.clock.wall();
  upload.attempt = context_.proposer.new_op_id();
  upload.object_seen = before.op_id();
  upload.target = plan.target;
  upload.if_match = request.condition.if_match;
  upload.if_none_match = request.condition.if_none_match;
  upload.complete_digest = digest;
  const OpId attempt = upload.attempt;
  CO_TRY(begun, co_await begin_completing(context_.proposer, name.upload(), std::move(upload),
                                          &manifest, deadline, seen));
  if (!begun) co_return std::optional<Answer>();
  const auto room = room_for_hints(context_, name.account, plan.left_over.size());
  if (!room) plan.left_over.clear();
  auto left_over = std::make_shared<const std::vector<BlobRef>>(std::move(plan.left_over));
  CO_TRY(end, co_await apply_attempt(context_, name, attempt, std::move(left_over), deadline));
  if (end.how == How::given_up) co_return std::move(end.why);
  if (end.how == How::moved) co_return std::optional<Answer>();
  answer->record = std::move(plan.target);
  co_return answer;
}

Task<> Multipart::abort(const Bucket& bucket, std::string key, std::string upload_id,
                        Deadline deadline, MemoryAccount account) {
  UploadName name = upload_name(bucket, std::move(key), std::move(upload_id));
  name.account = account;
  Duration backoff = kBackoffFirst;
  for (;;) {
    auto aborted = co_await abort_step(name, deadline);
    if (aborted && *aborted) co_return Result<>{};
    if (!aborted && is_final(aborted.error())) co_return aborted.error();
    CO_CHECK(co_await back_off(backoff, deadline));
  }
}

// True: aborted. False: look again.
Task<bool> Multipart::abort_step(UploadName name, Deadline deadline) {
  const RegisterRef ref = name.upload();
  CO_TRY(now, co_await context_.proposer.read(ref, ReadWant::value, deadline));
  if (now.kind() == ValueKind::upload_aborted) co_return true;
  if (!now.live() || now.kind() == ValueKind::upload_done) co_return no_such_upload();
  CO_TRY(upload, upload_record(*now.value));
  if (now.kind() == ValueKind::upload_completing) {
    CO_CHECK(co_await apply_attempt(context_, name, upload.attempt, nullptr, deadline));
    co_return false;
  }
  if (now.kind() == ValueKind::upload_reopening) {
    CO_CHECK(co_await give_up_attempt(context_, name, upload.attempt, deadline));
    co_return false;
  }
  CO_TRY(stored, co_await read_parts(context_, name, deadline));
  const auto room = room_for_hints(context_, name.account, stored.parts.size());
  if (!room) stored.parts.clear();
  const WallTime due = context_.hints_due();
  std::vector<Hint> freed;
  for (const PartInfo& part : stored.parts) {
    if (part.blob) freed.push_back(hint_for(*part.blob, due, name.upload_id));
  }
  co_return co_await abort_open(context_.proposer, ref, std::move(freed), deadline);
}

}  // namespace penstock
