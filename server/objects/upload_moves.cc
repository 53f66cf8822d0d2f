#include "server/objects/upload_moves.h"

#include <utility>

#include "penstock/planted.h"

namespace penstock {
namespace {
bool is_upload(ValueKind kind) {
  return kind >= ValueKind::upload_open && kind <= ValueKind::upload_aborted;
}

// One arrow: which states it leaves, of which attempt, and where it leads.
class UploadMove : public RegisterUpdate {
 public:
  UploadMove(ValueKind to, OpId op_id) : to_(to), op_id_(op_id) {}

  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.error = fail(Errc::aborted, "the upload has moved");
    refused_ = true;
    if (!is_upload(current.kind()) || !is_as_seen(current)) co_return decision;
    CO_TRY(record, upload_record(*current.value));
    if (stands_there(current.kind(), record)) {
      decision.action = Decision::Action::keep;
    } else if (leaves(current.kind(), record)) {
      CO_CHECK(co_await before_write());
      decision.action = Decision::Action::write;
      decision.hints = hints(record);
      decision.value = to_value(edited(std::move(record)), to_);
    } else {
      co_return decision;
    }
    refused_ = false;
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }
  bool refused() const { return refused_; }

 protected:
  virtual bool stands_there(ValueKind kind, const UploadRecord& record) const = 0;
  virtual bool leaves(ValueKind kind, const UploadRecord& record) const = 0;
  virtual UploadRecord edited(UploadRecord record) const = 0;
  virtual bool is_as_seen(const Snapshot&) const { return true; }
  virtual std::vector<Hint> hints(const UploadRecord&) const { return {}; }
  virtual Task<> before_write() { co_return Result<>{}; }
  ValueKind to() const { return to_; }

 private:
  ValueKind to_;
  OpId op_id_;
  bool refused_ = false;
};

class BeginCompleting final : public UploadMove {
 public:
  BeginCompleting(UploadRecord completing, LeaseKeeper* leases, Deadline deadline,
                  std::optional<Ballot> seen, OpId op_id)
      : UploadMove(ValueKind::upload_completing, op_id),
        completing_(std::move(completing)),
        leases_(leases),
        deadline_(deadline),
        seen_(seen) {}

 private:
  bool stands_there(ValueKind kind, const UploadRecord& record) const override {
    return kind == to() && record.attempt == completing_.attempt;
  }
  bool is_as_seen(const Snapshot& current) const override {
    return !seen_ || current.ballot == *seen_ || current.kind() != ValueKind::upload_open ||
           !holds(Rule::complete_as_listed);
  }
  bool leaves(ValueKind kind, const UploadRecord&) const override {
    return kind == ValueKind::upload_open || !holds(Rule::complete_open_upload);
  }
  UploadRecord edited(UploadRecord record) const override {
    record.attempt = completing_.attempt;
    record.object_seen = completing_.object_seen;
    record.target = completing_.target;
    record.if_match = completing_.if_match;
    record.if_none_match = completing_.if_none_match;
    record.complete_digest = completing_.complete_digest;
    return record;
  }
  Task<> before_write() override {
    if (leases_ == nullptr || !completing_.target) co_return Result<>{};
    CO_TRY(lost, co_await leases_->ensure(deadline_));
    for (ManifestPage& page : completing_.target->manifest) leave_out(page.blob, lost);
    co_return Result<>{};
  }
  UploadRecord completing_;
  LeaseKeeper* leases_;
  Deadline deadline_;
  std::optional<Ballot> seen_;
};

class AbortOpen final : public UploadMove {
 public:
  AbortOpen(std::vector<Hint> freed, OpId op_id)
      : UploadMove(ValueKind::upload_aborted, op_id), freed_(std::move(freed)) {}

 private:
  bool stands_there(ValueKind kind, const UploadRecord&) const override { return kind == to(); }
  bool leaves(ValueKind kind, const UploadRecord&) const override {
    return kind == ValueKind::upload_open || !holds(Rule::abort_open_upload);
  }
  UploadRecord edited(UploadRecord record) const override { return record; }
  std::vector<Hint> hints(const UploadRecord&) const override { return freed_; }
  std::vector<Hint> freed_;
};

class FinishDone final : public UploadMove {
 public:
  FinishDone(OpId attempt, std::vector<Hint> freed, OpId op_id)
      : UploadMove(ValueKind::upload_done, op_id), attempt_(attempt), freed_(std::move(freed)) {}

 private:
  bool stands_there(ValueKind kind, const UploadRecord&) const override { return kind == to(); }
  bool leaves(ValueKind kind, const UploadRecord& record) const override {
    const bool closing =
        kind == ValueKind::upload_completing || kind == ValueKind::upload_reopening;
    return closing && record.attempt == attempt_;
  }
  // Keeps the answer for a Complete that is sent again; the object owns parts and pages now.
  UploadRecord edited(UploadRecord record) const override {
    if (record.target) {
      record.etag = record.target->etag;
      record.target->parts.clear();
      record.target->manifest.clear();
    }
    record.if_match.clear();
    record.if_none_match.clear();
    return record;
  }
  std::vector<Hint> hints(const UploadRecord&) const override { return freed_; }
  OpId attempt_;
  std::vector<Hint> freed_;
};

class BeginReopening final : public UploadMove {
 public:
  BeginReopening(OpId attempt, OpId op_id)
      : UploadMove(ValueKind::upload_reopening, op_id), attempt_(attempt) {}

 private:
  bool stands_there(ValueKind kind, const UploadRecord& record) const override {
    return kind == to() && record.attempt == attempt_;
  }
  bool leaves(ValueKind kind, const UploadRecord& record) const override {
    return kind == ValueKind::upload_completing && record.attempt == attempt_;
  }
  UploadRecord edited(UploadRecord record) const override { return record; }
  OpId attempt_;
};

class FinishReopening final : public UploadMove {
 public:
  FinishReopening(OpId attempt, WallTime due, std::string upload_id, OpId op_id)
      : UploadMove(ValueKind::upload_open, op_id),
        attempt_(attempt),
        due_(due),
        upload_id_(std::move(upload_id)) {}

 private:
  // The attempt stays in the record, so that a repeated arrow knows where it stands.
  bool stands_there(ValueKind kind, const UploadRecord& record) const override {
    return kind == to() && record.attempt == attempt_;
  }
  bool leaves(ValueKind kind, const UploadRecord& record) const override {
    return kind == ValueKind::upload_reopening && record.attempt == attempt_;
  }
  UploadRecord edited(UploadRecord record) const override {
    record.target.reset();
    record.object_seen = OpId{};
    record.if_match.clear();
    record.if_none_match.clear();
    record.complete_digest.clear();
    return record;
  }
  std::vector<Hint> hints(const UploadRecord& record) const override {
    std::vector<Hint> freed;
    if (!record.target) return freed;
    for (const ManifestPage& page : record.target->manifest) {
      freed.push_back(hint_for(page.blob, due_, upload_id_));
    }
    return freed;
  }
  OpId attempt_;
  WallTime due_;
  std::string upload_id_;
};

Task<bool> run(Proposer& proposer, const RegisterRef& upload, UploadMove& move, Deadline deadline) {
  auto moved = co_await proposer.update(upload, move, deadline);
  if (moved) co_return true;
  if (moved.error().code == Errc::aborted && move.refused()) co_return false;
  co_return moved.error();
}
}  // namespace

Hint hint_for(const BlobRef& blob, WallTime due, std::string upload_id) {
  Hint hint;
  hint.write_id = blob.write_id;
  hint.due = due;
  hint.locations = encode_locations(blob);
  hint.upload_id = std::move(upload_id);
  return hint;
}

Task<bool> begin_completing(Proposer& proposer, RegisterRef upload, UploadRecord completing,
                            LeaseKeeper* leases, Deadline deadline, std::optional<Ballot> seen) {
  BeginCompleting move(std::move(completing), leases, deadline, seen, proposer.new_op_id());
  co_return co_await run(proposer, upload, move, deadline);
}

Task<bool> abort_open(Proposer& proposer, RegisterRef upload, std::vector<Hint> freed,
                      Deadline deadline) {
  AbortOpen move(std::move(freed), proposer.new_op_id());
  co_return co_await run(proposer, upload, move, deadline);
}

Task<bool> finish_done(Proposer& proposer, RegisterRef upload, OpId attempt,
                       std::vector<Hint> freed, Deadline deadline) {
  FinishDone move(attempt, std::move(freed), proposer.new_op_id());
  co_return co_await run(proposer, upload, move, deadline);
}

Task<bool> begin_reopening(Proposer& proposer, RegisterRef upload, OpId attempt,
                           Deadline deadline) {
  BeginReopening move(attempt, proposer.new_op_id());
  co_return co_await run(proposer, upload, move, deadline);
}

Task<bool> finish_reopening(Proposer& proposer, RegisterRef upload, OpId attempt, WallTime due,
                            Deadline deadline) {
  FinishReopening move(attempt, due, upload.key.upload_id, proposer.new_op_id());
  co_return co_await run(proposer, upload, move, deadline);
}

}  // namespace penstock
