// Conditional updates of one object's register: put, new metadata, delete, and the base they share.
// The order: check the conditions on the promised value; move an upload that the old record names
// to `done`; renew the leases; then send the accept with its hints.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/blobs/leases.h"
#include "server/objects/condition.h"
#include "server/proposer/proposer.h"
#include "server/records/object_record.h"

namespace penstock {

// An attempt id as ObjectRecord::attempt holds it. On disk, never change.
std::string encode_attempt(OpId attempt);
std::optional<OpId> decode_attempt(std::string_view bytes);

// Hints for what `next` no longer names of `current`: a difference of blobs. That of a manifest
// page stands for the parts in it, too.
Result<std::vector<Hint>> freed_by(const Snapshot& current, const RegisterValue& next,
                                   WallTime due);

// What every update of an object is given. Ownership: borrows proposer, clock and leases.
struct UpdateFrame {
  Proposer& proposer;
  RegisterRef object;
  OpId op_id;
  WallTime hints_due;
  Deadline deadline;
  LeaseKeeper* leases = nullptr;
};

class ObjectUpdate : public RegisterUpdate {
 public:
  explicit ObjectUpdate(UpdateFrame frame) : frame_(std::move(frame)) {}
  Task<Decision> decide(const Snapshot& current) final;
  OpId op_id() const final { return frame_.op_id; }
  // The last decision was to refuse: its error.
  const std::optional<Error>& refusal() const { return refusal_; }

 protected:
  // Looks at what lies beside the register, after the promise. A decision ends the attempt.
  virtual Task<std::optional<Decision>> look_beside();
  // Pure: refuse, keep or write (without hints).
  virtual Result<Decision> judge(const Snapshot& current) = 0;
  // Fragments that have no lease count as missing: later judgements do not name them (R10).
  virtual void drop_fragments(const std::vector<FragmentId>&) {}
  const UpdateFrame& frame() const { return frame_; }

 private:
  Task<Decision> decide_on(const Snapshot& current);
  UpdateFrame frame_;
  std::optional<Error> refusal_;
};

class PutObject final : public ObjectUpdate {
 public:
  PutObject(UpdateFrame frame, ObjectRecord record, SharedBytes inline_bytes, Condition condition)
      : ObjectUpdate(std::move(frame)),
        record_(std::move(record)),
        modified_(record_.modified),
        inline_bytes_(std::move(inline_bytes)),
        condition_(std::move(condition)) {}
  // As last written.
  ObjectRecord& record() { return record_; }

 private:
  Result<Decision> judge(const Snapshot& current) override;
  void drop_fragments(const std::vector<FragmentId>& lost) override;
  ObjectRecord record_;
  WallTime modified_;
  SharedBytes inline_bytes_;
  Condition condition_;
};

// Keeps the blobs of the record that `expected` wrote.
class ReplaceMetadata final : public ObjectUpdate {
 public:
  ReplaceMetadata(UpdateFrame frame, OpId expected, ObjectRecord record, SharedBytes inline_bytes)
      : ObjectUpdate(std::move(frame)),
        expected_(expected),
        wanted_(std::move(record)),
        inline_bytes_(std::move(inline_bytes)) {}
  ObjectRecord& record() { return written_; }

 private:
  Result<Decision> judge(const Snapshot& current) override;
  OpId expected_;
  ObjectRecord wanted_;
  ObjectRecord written_;
  SharedBytes inline_bytes_;
};

class RemoveObject final : public ObjectUpdate {
 public:
  RemoveObject(UpdateFrame frame, Condition condition)
      : ObjectUpdate(std::move(frame)), condition_(std::move(condition)) {}

 private:
  Result<Decision> judge(const Snapshot& current) override;
  Condition condition_;
};

// A decision that writes `record`, with Last-Modified not before that of `current`.
Result<RegisterUpdate::Decision> write_object(const Snapshot& current, ObjectRecord& record,
                                              WallTime modified, SharedBytes inline_bytes);
RegisterUpdate::Decision refuse(Error error);

}  // namespace penstock
