// One replica (acceptor) of the registers of one volume: promise, accept, read, scan, drop.
//
// Durable: an accept, a drop and a fence are synced before they are answered; a promise lives in
// memory and is covered by the synced ceiling (R4). One batch and one sync serve all that wait.
// Fast: reads and prepares of cached rows are answered on the calling thread.
// Failures: the first failed write closes the store for ever; what was being written is answered
// `io` (unknown until the next start), all else `unavailable`.
// A row that fails its checksum answers `corrupt`, never "absent"; an accept whose ballot is above
// everything that this volume has ever accepted heals it.
// Deadlines: a call still waiting in a queue after its deadline is answered `timeout` and not done.
// One that hangs in the disk is answered `timeout` by expire(); whether it was done is unknown.
// Source: CASPaxos (Rystsov, 2018) and rules R2 … R5, R9, R12. Thread-safety: all methods from any
// thread; results resume on the caller's executor.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/volume_client.h"
#include "server/volume/acceptor/body_collector.h"
#include "server/volume/acceptor/register_commit.h"
#include "server/volume/acceptor/register_reader.h"

namespace penstock {

struct RegisterStoreOptions {
  std::size_t cache_bytes = 12 * limits::kMiB;   // of rows
  std::size_t ballot_bytes = 12 * limits::kMiB;  // of the ballots that rows are known to have
  std::size_t promise_slots = PromiseTable::kSlots;
};

class RegisterStore {
 public:
  // `database` must outlive the store; the workers end with it. `commit_worker` has one thread.
  // `start` is this start of the volume, by a random number.
  RegisterStore(Database& database, Clock& clock, std::uint64_t start, const VolumeMeta& meta,
                std::unique_ptr<Worker> commit_worker, std::unique_ptr<Worker> read_worker,
                RegisterCommit::Hooks hooks, RegisterStoreOptions options = {});
  ~RegisterStore();

  // ---- as VolumeClient
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request, Deadline deadline);
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest> request, Deadline deadline);
  Task<Accepted> read(std::shared_ptr<const ReadRequest> request, Deadline deadline);
  std::optional<Result<Accepted>> read_now(const ReadRequest& request);
  bool holds_now(const ReadRequest& request, const Ballot& ballot);
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest> request, Deadline deadline);
  Task<> drop(std::shared_ptr<const DropRequest> request, Deadline deadline);

  // ---- upkeep, as VolumeClient: what this volume holds, whatever its epochs and fences are.
  Task<HintListReply> list_hints(HintListRequest request, Deadline deadline = Deadline::max());
  Task<Ballot> read_hint(HintName name, Deadline deadline = Deadline::max());
  Task<> drop_hints(std::vector<HintName> names, Deadline deadline = Deadline::max());
  Task<RegisterListReply> list_registers(RegisterListRequest request,
                                         Deadline deadline = Deadline::max());

  // The epochs under which this volume answers (R12), synced before the first answer under them.
  // Errors: stale_epoch - one would go back, or is known with another digest; busy - another such
  // call is under way.
  Task<> set_epochs(std::vector<GroupEpoch> epochs);
  // What other parts of the volume write with a change of the epochs. Both are called while no
  // other such change is under way, with the store's mutex held; both may be empty. `rows` is told
  // whether any epoch changes.
  struct Beside {
    std::function<Result<std::vector<RowOp>>(bool changed)> rows;
    std::function<void()> durable;  // also if the caller was answered `timeout` before
  };
  // The same with what a joining volume takes over (R12) and further rows, all in one batch.
  Task<> adopt(std::vector<GroupEpoch> epochs, JoinState join, Beside beside,
               Deadline deadline = Deadline::max());
  // The horizon and fences, of all that was durable before.
  Result<JoinState> join_state();
  // Rows of other parts of the volume, all or none, in the next batch. `durable`: as above.
  Task<> commit_rows(std::vector<RowOp> rows, Deadline deadline = Deadline::max(),
                     std::function<void()> durable = nullptr);

  // From now on every call is answered with `why`. Calls already in a batch end as they would.
  void close(Error why);
  // The disk does not answer: as close(), and every call under way is answered at once, `io` if it
  // may have changed something. Memory that waited for the disk is given back, but for what the
  // stuck calls hold.
  void abandon(const Error& why);
  // Answers the calls whose deadline is over with `timeout`, wherever they are.
  void expire(BootTime now) { core_.pending->expire(now); }

 private:
  std::optional<Result<PrepareReply>> prepare_now(const PrepareRequest& request);
  Result<> check_time(Deadline deadline) const;
  Task<> control(ControlWork work, Deadline deadline);
  // Runs `look`, returning Result<T>, beside the reads.
  template <class T, class Look>
  Task<T> look_up(Look look, Deadline deadline);
  Result<> check_open();
  RegisterCommit::Hooks with_collector(RegisterCommit::Hooks hooks);

  RegisterCore core_;
  std::atomic<bool> setting_epochs_{false};
  RegisterCommit commit_;
  RegisterReader reader_;
  BodyCollector collector_;
  std::unique_ptr<Worker> read_worker_;  // the workers end first: their jobs use all of the above
  std::unique_ptr<Worker> commit_worker_;
};

}  // namespace penstock
