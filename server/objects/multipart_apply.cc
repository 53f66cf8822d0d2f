#include "server/objects/multipart_apply.h"

#include <algorithm>
#include <iterator>

#include "penstock/planted.h"
#include "penstock/row_key.h"
#include "server/objects/upload_moves.h"

namespace penstock {
namespace {
using How = AttemptEnd::How;
using LeftOver = std::shared_ptr<const std::vector<BlobRef>>;

constexpr Duration kApplyBackoffFirst = std::chrono::milliseconds(10);
constexpr Duration kApplyBackoffLast = std::chrono::milliseconds(500);

AttemptEnd ended(How how, Error why = {}) {
  AttemptEnd end;
  end.how = how;
  end.why = std::move(why);
  return end;
}

// The object update of one attempt. Its op-id is the attempt's, whoever applies it: all appliers
// make one update.
class ApplyTarget final : public ObjectUpdate {
 public:
  ApplyTarget(UpdateFrame frame, std::string upload_id, OpId attempt, bool only_onto_seen)
      : ObjectUpdate(std::move(frame)),
        upload_id_(std::move(upload_id)),
        attempt_(attempt),
        only_onto_seen_(only_onto_seen) {}
  bool moved() const { return moved_; }

 private:
  // Read after the promise: had it been read before, the upload could have been reopened and
  // completed by another attempt in between.
  Task<std::optional<Decision>> look_beside() override {
    moved_ = false;
    if (upload_.target && !holds(Rule::upload_after_promise)) {
      co_return std::optional<Decision>();
    }
    RegisterRef upload = frame().object;
    upload.key.kind = RowKind::upload;
    upload.key.upload_id = upload_id_;
    CO_TRY(now, co_await frame().proposer.read(upload, ReadWant::value, frame().deadline));
    if (now.kind() == ValueKind::upload_completing) {
      CO_TRY(record, upload_record(*now.value));
      const bool same = record.attempt == attempt_ || !holds(Rule::attempt_compared);
      if (same && record.target) {
        upload_ = std::move(record);
        co_return std::optional<Decision>();
      }
    }
    moved_ = true;
    co_return refuse(fail(Errc::aborted, "the upload has moved"));
  }
  Result<Decision> judge(const Snapshot& current) override {
    Condition condition;
    if (holds(Rule::condition_stored)) {
      condition.if_match = upload_.if_match;
      condition.if_none_match = upload_.if_none_match;
    }
    if (auto met = condition.check(current); !met) return refuse(met.error());
    const bool seen = current.op_id() == upload_.object_seen || !holds(Rule::onto_object_seen);
    if (only_onto_seen_ && !seen) {
      return refuse(fail(Errc::precondition, "the object has changed since"));
    }
    ObjectRecord target = *upload_.target;
    target.upload_id = upload_id_;
    target.attempt = encode_attempt(attempt_);
    // Chosen under an older map perhaps: a volume that is being replaced is not named any more.
    for (PartInfo& part : target.parts) {
      if (part.blob) leave_out_leaving(*part.blob);
    }
    for (ManifestPage& page : target.manifest) leave_out_leaving(page.blob);
    return write_object(current, target, upload_.target->modified, nullptr);
  }

  void leave_out_leaving(BlobRef& blob) const {
    for (Location& location : blob.locations) {
      if (!frame().proposer.stays(location.volume)) location = Location{};
    }
  }

  std::string upload_id_;
  OpId attempt_;
  bool only_onto_seen_;
  UploadRecord upload_;
  bool moved_ = false;
};

constexpr std::size_t kPartsPage = 250;

Task<Turns::Turn> take_turn(ApplyContext context, MemoryAccount account) {
  if (context.turns == nullptr) co_return Turns::Turn();
  const BootTime until = context.clock.boot() + limits::kMemoryWait;
  co_return co_await context.turns->take(context.clock, account.place, until);
}

Task<MemoryBudget::Lease> take_memory(ApplyContext context, MemoryAccount account,
                                      std::size_t bytes) {
  if (context.memory == nullptr) co_return MemoryBudget::Lease();
  const BootTime until = context.clock.boot() + limits::kMemoryWait;
  const MemoryUser user{MemoryUse::documents, account};
  co_return co_await context.memory->take_patiently(context.clock, user, bytes, until);
}

// Blobs of stored parts that the upload's target does not name. Empty if that cannot be told: the
// sweep frees what no hint names.
Task<LeftOver> find_left_over(ApplyContext context, UploadName name, Deadline deadline) {
  auto none = std::make_shared<const std::vector<BlobRef>>();
  auto now = co_await context.proposer.read(name.upload(), ReadWant::value, deadline);
  if (!now || !now->value) co_return none;
  auto upload = upload_record(*now->value);
  // Reading a manifest back only to save the sweep work is not worth it.
  if (!upload || !upload->target || !upload->target->manifest.empty()) co_return none;
  auto stored = co_await read_parts(context, name, deadline);
  if (!stored) co_return none;
  auto left_over = std::make_shared<std::vector<BlobRef>>();
  const auto& named = upload->target->parts;
  for (PartInfo& part : stored->parts) {
    if (!part.blob) continue;
    const bool kept = std::any_of(named.begin(), named.end(), [&part](const PartInfo& other) {
      return other.blob && other.blob->write_id == part.blob->write_id;
    });
    if (!kept) left_over->push_back(std::move(*part.blob));
  }
  co_return LeftOver(std::move(left_over));
}

Task<AttemptEnd> finish(ApplyContext context, UploadName name, OpId attempt, LeftOver left_over,
                        Deadline deadline) {
  if (!left_over) {
    CO_TRY(found, co_await find_left_over(context, name, deadline));
    left_over = std::move(found);
  }
  std::vector<Hint> freed;
  const WallTime due = context.hints_due();
  for (const BlobRef& blob : *left_over) freed.push_back(hint_for(blob, due, name.upload_id));
  CO_TRY(done, co_await finish_done(context.proposer, name.upload(), attempt, std::move(freed),
                                    deadline));
  co_return ended(done ? How::applied : How::moved);
}

// One run of Apply.
Task<AttemptEnd> apply_once(ApplyContext context, UploadName name, OpId attempt, LeftOver left_over,
                            Deadline deadline) {
  const RegisterRef object = name.object();
  const OpId op_id = holds(Rule::attempt_op_id) ? attempt : context.proposer.new_op_id();
  UpdateFrame frame{context.proposer, object, op_id, context.hints_due(), deadline};
  ApplyTarget update(std::move(frame), name.upload_id, attempt, context.only_onto_seen);
  auto applied = co_await context.proposer.update(object, update, deadline);
  if (applied) {
    co_return co_await finish(context, name, attempt, std::move(left_over), deadline);
  }
  const bool refused = update.refusal() && update.refusal()->code == applied.error().code;
  if (!refused) co_return applied.error();
  if (update.moved()) co_return ended(How::moved);
  CO_TRY(reopening, co_await begin_reopening(context.proposer, name.upload(), attempt, deadline));
  if (!reopening) co_return ended(How::moved);
  CO_TRY(end, co_await give_up_attempt(context, name, attempt, deadline));
  end.why = applied.error();
  co_return end;
}
}  // namespace

std::size_t part_answers_bytes(std::string_view key, std::string_view upload_id) {
  constexpr std::size_t kRow = 640;  // beside the key
  return limits::kReplicasMax * (upload_suffix(key, upload_id).size() + kRow);
}

// Few read at a time, so that those who do come to their end: with pages of all uploads in memory
// none would find room for its next one.
Task<StoredParts> read_parts(ApplyContext context, UploadName name, Deadline deadline) {
  CO_TRY(turn, co_await take_turn(context, name.account));
  const std::size_t answers = kPartsPage * part_answers_bytes(name.key, name.upload_id);
  CO_TRY(under_way, co_await take_memory(context, name.account, answers));
  StoredParts stored;
  PartSpan page;
  page.most = kPartsPage;
  for (bool last = false; !last;) {
    CO_TRY(memory, co_await take_memory(context, name.account, kPartsPage * kPartMemory));
    CO_TRY(more, co_await context.index.list_parts(name.bucket, name.key, name.upload_id, deadline,
                                                   page));
    last = more.size() < page.most;
    if (!last) page.after = more.back().number;
    memory.shrink_to(more.size() * kPartMemory);
    stored.memory.push_back(std::move(memory));
    std::move(more.begin(), more.end(), std::back_inserter(stored.parts));
  }
  co_return std::move(stored);
}

bool is_passing(const Error& error) {
  return error.code == Errc::unavailable || error.code == Errc::unknown_outcome ||
         error.code == Errc::timeout || error.code == Errc::overloaded;
}

Task<AttemptEnd> apply_attempt(ApplyContext context, UploadName name, OpId attempt,
                               std::shared_ptr<const std::vector<BlobRef>> left_over,
                               Deadline deadline) {
  Duration backoff = kApplyBackoffFirst;
  for (;;) {
    auto end = co_await apply_once(context, name, attempt, left_over, deadline);
    if (end || !is_passing(end.error())) co_return end;
    if (context.clock.boot() + backoff >= deadline) {
      co_return fail(Errc::unknown_outcome, "the upload is being completed");
    }
    co_await context.clock.sleep_until(context.clock.boot() + backoff);
    backoff = std::min(backoff * 2, kApplyBackoffLast);
  }
}

Task<AttemptEnd> give_up_attempt(ApplyContext context, UploadName name, OpId attempt,
                                 Deadline deadline) {
  const RegisterRef object = name.object();
  if (holds(Rule::reopening_round)) {
    CO_TRY(now, co_await context.proposer.write_back(object, WriteBack::complete, false, deadline));
    if (now.value && now.value->chain_contains(attempt)) {
      co_return co_await finish(context, name, attempt, nullptr, deadline);
    }
  }
  const WallTime due = context.hints_due();
  CO_TRY(open, co_await finish_reopening(context.proposer, name.upload(), attempt, due, deadline));
  co_return ended(open ? How::given_up : How::moved);
}

}  // namespace penstock
