#include "server/volume/acceptor/commit_batch.h"

#include "penstock/assert.h"
#include "penstock/planted.h"
#include "penstock/row_key.h"
#include "server/volume/disk/sealed_row.h"

namespace penstock {
namespace {

RegisterKey upload_key_of(const RegisterKey& key, const std::string& upload_id) {
  RegisterKey upload;
  upload.kind = RowKind::upload;
  upload.bucket = key.bucket;
  upload.key = key.key;
  upload.upload_id = upload_id;
  return upload;
}

// Rounds that settle a part, else it would block epoch changes and purge for ever.
bool passes_closed_upload(const AcceptRequest& request) {
  return request.round.adds_nothing && holds(Rule::part_write_back);
}

// The registers that a call looks at: its own, and the upload beside it.
struct Keys {
  const RegisterKey* own = nullptr;
  std::optional<RegisterKey> upload;
};
Keys keys_of(const CommitWork& work) {
  if (const auto* prepare = std::get_if<PrepareWork>(&work)) {
    return {&prepare->request->key, {}};
  }
  if (const auto* accept = std::get_if<AcceptWork>(&work)) {
    const AcceptRequest& request = *accept->request;
    Keys keys{&request.key, {}};
    if (request.key.kind == RowKind::part && !passes_closed_upload(request)) {
      keys.upload = upload_key_of(request.key, request.key.upload_id);
    }
    return keys;
  }
  if (const auto* drop = std::get_if<DropWork>(&work)) return {&drop->request->key, {}};
  return {};
}

void put_row(leveldb::WriteBatch& batch, const RowOp& op) {
  if (op.value) {
    batch.Put(op.key, *op.value);
  } else {
    batch.Delete(op.key);
  }
}

}  // namespace

template <class T>
void CommitBatch::answer(const Completion<T>& done, Result<T> result) {
  answers_.push_back([done, result = std::move(result)] { done(result); });
}

void CommitBatch::send_answers() {
  for (const auto& give : answers_) give();
  answers_.clear();
}

Result<> CommitBatch::run(std::vector<CommitWork> works) {
  look_up(works);
  {
    const CountedLock lock(core_.mutex);
    for (CommitWork& work : works) decide(std::move(work));
  }
  send_answers();  // refusals and promises need no sync
  if (!writes_nothing()) {
    const auto fill_record = [this](LogRecord& record, leveldb::WriteBatch& batch) {
      fill(record, batch);
    };
    auto written = core_.database.write(bytes_at_most(), fill_record, holds(Rule::synced_rows));
    if (!written &&
        (written.error().code == Errc::overloaded || written.error().code == Errc::full)) {
      refused_ = written.error();
      give_back(*refused_);
      return {};
    }
    if (!written && holds(Rule::failed_write_refused)) {
      fail_all(written.error());
      return written;
    }
  }
  publish();
  send_answers();
  return {};
}

// Rows not in the cache are read here, before any decision; nobody else writes them meanwhile.
void CommitBatch::look_up(const std::vector<CommitWork>& works) {
  std::vector<std::pair<RegisterKey, RegisterParts::Stamp>> missing;
  const auto look = [&](const RegisterKey& key) {
    if (rows_.contains(key)) return;
    auto kept = core_.rows.find(key);
    if (kept.row == nullptr) missing.emplace_back(key, kept.stamp);
    rows_.emplace(key, std::move(kept.row));
  };
  for (const CommitWork& work : works) {
    const Keys keys = keys_of(work);
    if (keys.own != nullptr) look(*keys.own);
    if (keys.upload) look(*keys.upload);
    const auto* move = std::get_if<MoveWork>(&work);
    if (move == nullptr) continue;
    for (const BodyMove& body : move->moves) look(body.key);
  }
  for (const auto& [key, stamp] : missing) {
    auto& row = rows_.at(key);
    row = core_.load(key);
    if (row) core_.rows.keep(key, row.value(), stamp);
  }
}

void CommitBatch::decide(CommitWork work) {
  const Keys keys = keys_of(work);
  const bool waits = (keys.own != nullptr && core_.rows.is_busy(*keys.own)) ||
                     (keys.upload && core_.rows.is_busy(*keys.upload));
  if (waits) {
    deferred_.push_back(std::move(work));
    return;
  }
  std::visit([this](auto&& call) { decide(std::move(call)); }, std::move(work));
}

void CommitBatch::decide(PrepareWork work) {
  const PrepareRequest& request = *work.request;
  const auto& row = rows_.at(request.key);
  if (!row) return answer<PrepareReply>(work.done, row.error());
  PrepareOutcome outcome = try_prepare(core_, request, *row.value());
  if (outcome.raise_ceiling) {
    ceiling_ = std::max(ceiling_, AcceptorState::ceiling_for(request.ballot.counter));
    deferred_.push_back(std::move(work));
    return;
  }
  if (outcome.from_future) {
    answers_.push_back([this, ballot = request.ballot] { report_future_ballot(core_, ballot); });
  }
  if (outcome.reply->has_value() && outcome.reply->value().promised &&
      core_.acceptor.ceiling_is_near(request.ballot.counter)) {
    ceiling_ = std::max(ceiling_, AcceptorState::ceiling_for(request.ballot.counter));
  }
  answer<PrepareReply>(work.done, std::move(*outcome.reply));
}

Result<> CommitBatch::check_upload(const AcceptRequest& request) {
  if (request.key.kind != RowKind::part || passes_closed_upload(request)) return {};
  const auto& upload = rows_.at(upload_key_of(request.key, request.key.upload_id));
  if (!upload) return upload.error();
  const ValueKind kind = upload.value()->kind;
  if (kind == ValueKind::absent) {
    if (!holds(Rule::part_upload_row)) return {};
    return fail(Errc::upload_missing, request.key.upload_id);
  }
  if (kind != ValueKind::upload_open && holds(Rule::part_of_open_upload)) {
    return fail(Errc::upload_not_open, request.key.upload_id);
  }
  return {};
}

// The row to write; null if `reply` says it all.
Result<RowPtr> CommitBatch::decide_accept(const AcceptRequest& request, AcceptReply& reply) {
  CHECK_OK(core_.gate(request.round, request.key.bucket));
  const auto& current = rows_.at(request.key);
  if (!current && current.error().code == Errc::overloaded) return current.error();
  const RowPtr row = current ? current.value() : nullptr;
  if (row && row->ballot == request.ballot) {
    reply.accepted = true;  // the message was doubled, or its answer was lost
    return RowPtr();
  }
  TRY(next, make_row(request.ballot, request.round, request.value));
  const bool tombstone = next->kind == ValueKind::tombstone;
  if (!tombstone) CHECK_OK(check_upload(request));
  if (next->inline_size > 0 && !request.inline_bytes) {
    if (!row || row->op_id != next->op_id || row->inline_size != next->inline_size) {
      return fail(Errc::invalid, "the value's inline bytes are neither sent nor held");
    }
  }
  if (full_ && request.inline_bytes && !request.round.adds_nothing) {
    return fail(Errc::full, "no inline bytes on a full volume");
  }
  const std::uint64_t hash = RegisterKeyHash{}(request.key);
  const Verdict verdict = row ? core_.acceptor.accept(hash, request.ballot, row->ballot)
                              : core_.acceptor.accept_blind(hash, request.ballot);
  if (verdict == Verdict::pass) return next;
  if (!row) return current.error();
  reply.demand_ballot = core_.acceptor.demand(hash, row->ballot);
  return RowPtr();
}

void CommitBatch::decide(AcceptWork work) {
  const AcceptRequest& request = *work.request;
  AcceptReply reply;
  Result<RowPtr> next = decide_accept(request, reply);
  if (!next) return answer<AcceptReply>(work.done, next.error());
  if (!next.value()) return answer<AcceptReply>(work.done, reply);
  if (request.ballot.counter > core_.acceptor.ceiling()) {
    ceiling_ = std::max(ceiling_, request.ballot.counter);
  }
  PENSTOCK_ASSERT(*next != nullptr && (*next)->ballot == request.ballot);
  core_.rows.begin_write(request.key);
  const auto& current = rows_.at(request.key);
  RowPtr replaced = current ? current.value() : nullptr;
  accepts_.push_back({std::move(work), std::move(next).value(), std::move(replaced)});
}

// R9: the purge of a tombstone that all replicas hold at one ballot. Any other row stays; that it
// does is said, so that nobody takes it for purged.
void CommitBatch::decide(DropWork work) {
  const DropRequest& request = *work.request;
  auto passes = core_.gate(request.round, request.key.bucket);
  if (!passes && holds(Rule::drop_in_epoch)) {
    return answer<void>(work.done, std::move(passes));
  }
  const auto& row = rows_.at(request.key);
  if (!row) return answer<void>(work.done, row.error());
  if (row.value()->kind == ValueKind::absent) return answer<void>(work.done, {});
  const bool purged = row.value()->ballot == request.ballot || !holds(Rule::dropped_ballot);
  if (!purged || row.value()->kind != ValueKind::tombstone) {
    return answer<void>(work.done, fail(Errc::refused, "it holds another row of the key"));
  }
  horizon_ = std::max({horizon_, core_.acceptor.horizon(), request.ballot.counter});
  PENSTOCK_ASSERT(horizon_ >= request.ballot.counter);
  core_.rows.begin_write(request.key);
  drops_.push_back(std::move(work));
}

void CommitBatch::decide(ControlWork work) {
  Result<std::vector<RowOp>> rows{};
  if (core_.closed) {
    rows = *core_.closed;
  } else if (work.decide) {
    rows = work.decide(core_.acceptor);
  }
  if (!rows) {
    if (work.done) {
      answers_.push_back([done = work.done, error = rows.error()] { done(error); });
    }
    return;
  }
  if (work.ceiling > core_.acceptor.ceiling()) ceiling_ = std::max(ceiling_, work.ceiling);
  if (work.horizon > core_.acceptor.horizon()) horizon_ = std::max(horizon_, work.horizon);
  for (const auto& [bucket, number] : work.fences) {
    if (number <= core_.acceptor.gate().fence(bucket)) continue;
    BucketNumber& fence = fences_[bucket];
    fence = std::max(fence, number);
  }
  for (RowOp& row : rows.value()) control_rows_.push_back(std::move(row));
  controls_.push_back(std::move(work));
}

// A row that names another place by now stays as it is; a busy key is left for the next pass.
void CommitBatch::decide(MoveWork work) {
  MoveAnswer moved{std::move(work.done), 0};
  for (BodyMove& move : work.moves) {
    const auto& row = rows_.at(move.key);
    if (!row || core_.rows.is_busy(move.key)) {
      ++moved.skipped;
      continue;
    }
    if (row.value()->body != move.from) continue;
    core_.rows.begin_write(move.key);
    moves_.push_back({std::move(move), nullptr, row.value()});
  }
  moved_.push_back(std::move(moved));
}

bool CommitBatch::writes_nothing() const {
  return accepts_.empty() && drops_.empty() && control_rows_.empty() && moves_.empty() &&
         ceiling_ == 0 && horizon_ == 0 && fences_.empty();
}

// More is no harm but for the end of a file of the log that stays empty.
std::size_t CommitBatch::bytes_at_most() const {
  constexpr std::size_t kRowBytes = 192;  // of what is beside key and value, and of a file's count
  const auto row_bytes = [](const RegisterKey& key) {
    return kRowBytes + key.key.size() + key.upload_id.size();
  };
  std::size_t bytes = kRowBytes * (3 + fences_.size());
  for (const AcceptPlan& plan : accepts_) {
    const AcceptRequest& request = *plan.work.request;
    bytes += row_bytes(request.key) + request.value->size();
    if (request.inline_bytes) bytes += request.inline_bytes->size();
    for (const Hint& hint : request.hints) bytes += kRowBytes + stored_bytes(request.key, hint);
  }
  for (const MovePlan& plan : moves_) {
    bytes += row_bytes(plan.move.key) + plan.replaced->value->size() + plan.move.bytes->size();
  }
  for (const DropWork& drop : drops_) bytes += row_bytes(drop.request->key);
  for (const RowOp& row : control_rows_) {
    bytes += kRowBytes + row.key.size() + (row.value ? row.value->size() : 0);
  }
  return bytes;
}

// R3: a row, its inline bytes, its hints and the ceiling above its ballot become durable as one.
void CommitBatch::fill(LogRecord& record, leveldb::WriteBatch& batch) {
  for (AcceptPlan& plan : accepts_) fill_accept(plan, record, batch);
  for (MovePlan& plan : moves_) {
    const RegisterRow& old = *plan.replaced;
    const std::string key = register_row_key(plan.move.key);
    const std::size_t bytes = logged_bytes(key, old);
    plan.row = with_body(old, record.add_body(old.op_id, *plan.move.bytes));
    record.release(old.body, bytes);
    record.retain(plan.row->body, bytes);
    batch.Put(key, encode_row(key, *plan.row));
  }
  for (const DropWork& drop : drops_) batch.Delete(register_row_key(drop.request->key));
  for (const RowOp& row : control_rows_) put_row(batch, row);
  for (const auto& [bucket, number] : fences_) {
    if (holds(Rule::synced_fence)) put_row(batch, fence_row(bucket, number));
  }
  if (ceiling_ > 0 && holds(Rule::ceiling)) put_row(batch, ceiling_row(ceiling_));
  if (horizon_ > 0) put_row(batch, horizon_row(horizon_));
}

// Inline bytes that were not sent again stay where they are: the row before names them.
void CommitBatch::fill_accept(AcceptPlan& plan, LogRecord& record,
                              leveldb::WriteBatch& batch) const {
  const AcceptRequest& request = *plan.work.request;
  const std::string key = register_row_key(request.key);
  if (plan.row->inline_size > 0) {
    const BodyPlace body = request.inline_bytes
                               ? record.add_body(plan.row->op_id, *request.inline_bytes)
                               : plan.replaced->body;
    plan.row = with_body(*plan.row, body);
    record.retain(body, logged_bytes(key, *plan.row));
  }
  if (plan.replaced && plan.replaced->body.file != 0) {
    record.release(plan.replaced->body, logged_bytes(key, *plan.replaced));
  }
  batch.Put(key, encode_row(key, *plan.row));
  for (const Hint& hint : request.hints) {
    if (!holds(Rule::hint_with_accept)) break;
    const std::string hint_key = hint_row_key({hint.due, hint.write_id, kEverySlot});
    batch.Put(hint_key, encode_hint(hint_key, request, hint, core_.start.stamp()));
  }
}

void CommitBatch::publish() {
  const CountedLock lock(core_.mutex);
  core_.acceptor.raise_ceiling(ceiling_);
  for (const AcceptPlan& plan : accepts_) {
    PENSTOCK_ASSERT(plan.row->ballot.counter <= core_.acceptor.ceiling());
  }
  core_.acceptor.raise_horizon(horizon_);
  for (const auto& [bucket, number] : fences_) core_.acceptor.gate().raise_fence(bucket, number);
  for (AcceptPlan& plan : accepts_) {
    const RegisterKey& key = plan.work.request->key;
    core_.acceptor.accepted(RegisterKeyHash{}(key), plan.row->ballot);
    core_.rows.end_write(key, plan.row);
    AcceptReply reply;
    reply.accepted = true;
    answer<AcceptReply>(plan.work.done, reply);
  }
  for (DropWork& drop : drops_) {
    core_.rows.end_write(drop.request->key, absent_row());
    answer<void>(drop.done, {});
  }
  for (MovePlan& plan : moves_) core_.rows.end_write(plan.move.key, plan.row);
  for (const MoveAnswer& moved : moved_) {
    answers_.push_back([done = moved.done, skipped = moved.skipped] { done(skipped); });
  }
  for (ControlWork& control : controls_) {
    if (control.durable) control.durable(core_.acceptor);
    if (control.done) answers_.push_back([done = control.done] { done({}); });
  }
  core_.tell_gate();
}

void CommitBatch::answer_all(const Error& error) const {
  for (const AcceptPlan& plan : accepts_) plan.work.done(error);
  for (const DropWork& drop : drops_) drop.done(error);
  for (const MoveAnswer& moved : moved_) moved.done(error);
  for (const ControlWork& control : controls_) {
    if (control.done) control.done(error);
  }
}

// Nothing of the batch was written, and the next one may be.
void CommitBatch::give_back(const Error& error) {
  {
    const CountedLock lock(core_.mutex);
    for (const AcceptPlan& plan : accepts_) core_.rows.abort_write(plan.work.request->key);
    for (const DropWork& drop : drops_) core_.rows.abort_write(drop.request->key);
    for (const MovePlan& plan : moves_) core_.rows.abort_write(plan.move.key);
  }
  answer_all(error);
}

// What was in the batch may or may not be found after the next start: `io`, whose outcome is
// unknown. The busy keys stay busy; nothing is answered any more.
void CommitBatch::fail_all(const Error& error) {
  {
    const CountedLock lock(core_.mutex);
    core_.close(fail(Errc::unavailable, error.context));
  }
  answer_all(error);
}

}  // namespace penstock
