// One round of the group commit: look up, decide, write, publish. Internal to RegisterCommit.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "server/volume/acceptor/register_commit.h"

namespace penstock {

class CommitBatch {
 public:
  CommitBatch(RegisterCore& core, bool full) : core_(core), full_(full) {}

  // Runs the four steps. Afterwards deferred() holds what must be asked again, in order.
  // Errors: io - the write failed; everything of this batch has been answered.
  Result<> run(std::vector<CommitWork> works);
  std::vector<CommitWork>& deferred() { return deferred_; }
  // Why nothing of it was written although nothing failed: want of space, descriptors or memory.
  const std::optional<Error>& refused() const { return refused_; }

 private:
  struct AcceptPlan {
    AcceptWork work;
    RowPtr row;       // the new one
    RowPtr replaced;  // null if it could not be read
  };
  struct MovePlan {
    BodyMove move;
    RowPtr row;
    RowPtr replaced;
  };
  struct MoveAnswer {
    std::function<void(Result<std::size_t>)> done;
    std::size_t skipped = 0;
  };
  using Rows = std::unordered_map<RegisterKey, Result<RowPtr>, RegisterKeyHash>;

  void look_up(const std::vector<CommitWork>& works);
  void decide(CommitWork work);
  void decide(PrepareWork work);
  void decide(AcceptWork work);
  void decide(DropWork work);
  void decide(ControlWork work);
  void decide(MoveWork work);
  Result<RowPtr> decide_accept(const AcceptRequest& request, AcceptReply& reply);
  Result<> check_upload(const AcceptRequest& request);
  bool writes_nothing() const;
  std::size_t bytes_at_most() const;
  void fill(LogRecord& record, leveldb::WriteBatch& batch);
  void fill_accept(AcceptPlan& plan, LogRecord& record, leveldb::WriteBatch& batch) const;
  void publish();
  void fail_all(const Error& error);
  void give_back(const Error& error);
  void answer_all(const Error& error) const;
  template <class T>
  void answer(const Completion<T>& done, Result<T> result);
  void send_answers();

  RegisterCore& core_;
  const bool full_;
  Rows rows_;                                // of every key in the batch, as last synced
  std::uint64_t ceiling_ = 0;                // to be written; 0 = as it is
  std::uint64_t horizon_ = 0;                // the same
  std::map<BucketId, BucketNumber> fences_;  // to be written
  std::vector<AcceptPlan> accepts_;
  std::vector<DropWork> drops_;
  std::vector<ControlWork> controls_;
  std::vector<RowOp> control_rows_;
  std::vector<MovePlan> moves_;
  std::vector<MoveAnswer> moved_;
  std::vector<CommitWork> deferred_;
  std::optional<Error> refused_;
  std::vector<std::function<void()>> answers_;  // to be given when no mutex is held
};

}  // namespace penstock
