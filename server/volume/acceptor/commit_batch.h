// One round of the group commit: look up, decide, write, publish. Internal to RegisterCommit.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
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

 private:
  struct AcceptPlan {
    AcceptWork work;
    RowPtr row;       // the new one
    RowPtr replaced;  // null if it could not be read
  };
  using Rows = std::unordered_map<RegisterKey, Result<RowPtr>, RegisterKeyHash>;

  void look_up(const std::vector<CommitWork>& works);
  void decide(CommitWork work);
  void decide(PrepareWork work);
  void decide(AcceptWork work);
  void decide(DropWork work);
  void decide(ControlWork work);
  Result<RowPtr> decide_accept(const AcceptRequest& request, AcceptReply& reply);
  Result<> check_upload(const AcceptRequest& request);
  leveldb::WriteBatch make_batch(bool& empty) const;
  void publish();
  void fail_all(const Error& error);
  void give_back(const Error& error);
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
  std::vector<CommitWork> deferred_;
  std::vector<std::function<void()>> answers_;  // to be given when no mutex is held
};

}  // namespace penstock
