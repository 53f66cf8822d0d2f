// The one writer of a volume's rows, but for that which counts a start. Whatever waits is taken
// together, decided in order and written as one synced batch: registers, inline bytes, hints,
// ceilings, extents, notes.
//
// A key with an accept, a drop or a move in the batch is busy: later calls for it wait for the next
// batch, so that check and durable write are one step (R5). A failed write is final: the store
// closes.
// Thread-safety: submit() from any thread. The batches run on the worker, one after another.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/async.h"
#include "server/volume/acceptor/register_core.h"
#include "server/volume/rows/row_op.h"

namespace penstock {

struct PrepareWork {
  std::shared_ptr<const PrepareRequest> request;
  Deadline deadline;
  Completion<PrepareReply> done;
};
struct AcceptWork {
  std::shared_ptr<const AcceptRequest> request;
  Deadline deadline;
  Completion<AcceptReply> done;
};
struct DropWork {
  std::shared_ptr<const DropRequest> request;
  Deadline deadline;
  Completion<void> done;
};
// Rows that are no registers. `decide` runs in queue order with the core's mutex held and says what
// to write (nothing: success at once, behind all that was queued); `durable` runs after the sync,
// also with the mutex held.
struct ControlWork {
  std::uint64_t ceiling = 0;  // to raise the ceiling to, with the rows; 0 = leave it
  std::uint64_t horizon = 0;  // the same for the horizon
  std::vector<std::pair<BucketId, BucketNumber>> fences;  // to raise, each if it is lower
  std::function<Result<std::vector<RowOp>>(AcceptorState&)> decide;  // may be empty
  std::function<void(AcceptorState&)> durable;                       // may be empty
  std::function<void(Result<>)> done;                                // may be empty
};
// Inline bytes that are to lie elsewhere in the log. A row that names another place by now stays as
// it is. Answers how many could not be moved: their key was busy, or their row could not be read.
struct BodyMove {
  RegisterKey key;
  BodyPlace from;
  SharedBytes bytes;
};
struct MoveWork {
  std::vector<BodyMove> moves;
  std::function<void(Result<std::size_t>)> done;
};
using CommitWork = std::variant<PrepareWork, AcceptWork, DropWork, ControlWork, MoveWork>;

// A promise, if the row is known. Pre: core's mutex held.
struct PrepareOutcome {
  bool raise_ceiling = false;  // no answer yet: first the ceiling
  bool from_future = false;    // refused, and someone's clock should be looked at
  std::optional<Result<PrepareReply>> reply;
};
PrepareOutcome try_prepare(RegisterCore& core, const PrepareRequest& request,
                           const RegisterRow& row);
// One line, at most one a minute per volume.
void report_future_ballot(RegisterCore& core, Ballot ballot);

class RegisterCommit {
 public:
  struct Hooks {
    std::function<bool()> is_full;                 // may look at the disk; called once per batch
    std::function<void(const Error&)> on_failure;  // the database is lost; called on the worker
    std::function<void()> after_batch;  // on the worker, with no mutex held; may be empty
  };
  RegisterCommit(RegisterCore& core, Worker& worker, Hooks hooks);

  // Answers `overloaded` through `done` when limits::kVolumeQueueMax calls wait.
  void submit(CommitWork work);
  // Raises the ceiling in the background for promises around `counter`; at most one at a time.
  void extend_ceiling(std::uint64_t counter);
  // A batch may never end: answers all that wait for the next one with `why`.
  void abandon(const Error& why);

 private:
  void run();
  void serve(std::vector<CommitWork> works);
  void abandon(const std::vector<CommitWork>& works, const Error& error);
  std::vector<CommitWork> take();

  RegisterCore& core_;
  Worker& worker_;
  const Hooks hooks_;
  std::mutex mutex_;  // guards all below
  std::deque<CommitWork> queue_;
  bool running_ = false;
  bool extending_ = false;
};

}  // namespace penstock
