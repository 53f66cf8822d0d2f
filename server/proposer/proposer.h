// Register rounds: how one key is read and changed so that all gateways agree (CASPaxos, Rystsov
// 2018; rules R2 … R12). No leader, no locks: any process with a Proposer may change any register;
// the acceptors decide. Thread-safety: all methods from any I/O thread. One per process: its
// process id makes ballots unique (R2).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/limits.h"
#include "penstock/register_value.h"
#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "server/membership/membership.h"

namespace penstock {

// A register and how its bucket is spread. `number` fences rounds of a deleted bucket (0 for the
// system bucket).
struct RegisterRef {
  RegisterKey key;
  BucketNumber number;
  std::uint32_t partitions = 1;
};

// A value as read or promised. `value` null: absent.
struct Snapshot {
  Ballot ballot;
  std::shared_ptr<const RegisterValue> value;
  SharedBytes inline_bytes;
  bool settled = false;  // a majority holds it at one ballot: it may be shown to a client
  OpId op_id() const { return value ? value->op_id : OpId{}; }
  ValueKind kind() const { return value ? value->kind : ValueKind::absent; }
  bool live() const { return is_live(kind()); }
};

// One conditional update: evaluated on the value that a majority has promised, perhaps several
// times (each attempt anew). Must be a pure function of `current` plus idempotent preparations, and
// must take its op-id from the constructor: all attempts of one client's request are one update.
class RegisterUpdate {
 public:
  virtual ~RegisterUpdate() = default;
  struct Decision {
    enum class Action : std::uint8_t {
      write,   // propose `value`
      refuse,  // a condition fails: the proposer settles `current` first (R7), then answers `error`
      keep,    // nothing to do: settle `current`, answer success
      restart,  // something beside the register was moved (e.g. an upload to done): prepare again
    };
    Action action = Action::refuse;
    RegisterValue value;  // kind, summary, payload; the proposer fills in the rest
    SharedBytes inline_bytes;
    std::vector<Hint> hints;
    Error error;
  };
  // `current` has no inline bytes; it is settled only if a majority of the quorum holds it.
  // Errors: any; nothing is written then, and the update answers it if no accept was sent before.
  virtual Task<Decision> decide(const Snapshot& current) = 0;
  // Op-id of this update. Zero: the value keeps its own, with its chain and origin, at revision + 1
  // (repair, rebalance).
  virtual OpId op_id() const = 0;
};

// The ballot at which every replica of a register acked its tombstone, and the group epoch of that
// round (R9).
struct TombstoneMark {
  Ballot ballot;
  Epoch epoch;
};
enum class DropEnd : std::uint8_t {
  all_answered,  // no replica holds the tombstone at the mark's ballot any more
  ask_again,     // one has not answered: the same drop again, later
  void_mark,     // the group has changed since, or a replica holds another row of the key by now
};

// Which values a write-back accepts again.
enum class WriteBack : std::uint8_t {
  if_needed,  // one that a majority holds already is left as it is; an absent key stays absent
  always,     // every one (R12: so that a joining volume has it, too); absent stays absent
  complete,   // the same, and a tombstone is written if the key is absent
};

class Proposer {
 public:
  // `chain_max`: how many predecessors the values of this proposer name, at most kChainMax. With
  // fewer of them more outcomes are unknown, and none is wrong: tests look for that.
  Proposer(Membership& membership, Clock& clock, Random& random,
           std::size_t chain_max = limits::kChainMax);
  ~Proposer();

  // One-round read (R6): linearizable; re-sends the highest value if there is no majority at one
  // ballot; falls back to a write-back. Errors: unavailable - no quorum; stale_bucket;
  // timeout.
  Task<Snapshot> read(const RegisterRef& ref, ReadWant want, Deadline deadline);
  // The same answered at once from memory if a majority of replicas agrees; nullopt: ask with
  // read().
  std::optional<Snapshot> read_now(const RegisterRef& ref, ReadWant want);
  // Prepare + accept of the highest value found, which is settled then. `background`: passes the
  // bucket fence.
  Task<Snapshot> write_back(const RegisterRef& ref, WriteBack how, bool background,
                            Deadline deadline);
  // Conditional update with the unknown-outcome rule (R8). The snapshot is the value now chosen
  // (written or kept). Updates of one key go one after another inside the process; `update` must
  // live until then. Errors: what decide() refused with, on a settled value; overloaded,
  // unavailable, stale_bucket - nothing was sent; full, upload_not_open - an accept was sent and
  // all replicas refused it; unknown_outcome.
  Task<Snapshot> update(const RegisterRef& ref, RegisterUpdate& update, Deadline deadline);
  // As update, for the deleter of a bucket and for background rounds: passes the fence.
  Task<Snapshot> update_background(const RegisterRef& ref, RegisterUpdate& update,
                                   Deadline deadline);

  // The two steps of a purge, see purge_round.h; both pass the fence. mark_tombstone: nullopt - the
  // register is live, or not every replica acked. Errors: unavailable; corrupt.
  Task<std::optional<TombstoneMark>> mark_tombstone(const RegisterRef& ref, Deadline deadline);
  Task<DropEnd> drop_tombstone(const RegisterRef& ref, TombstoneMark mark, Deadline deadline);
  // As read, but passes the fence: for background work.
  Task<Snapshot> read_background(const RegisterRef& ref, ReadWant want, Deadline deadline);
  // Does a majority hold the row of this ballot, and does every replica answer and hold none above
  // it? Else a later round may settle another, also one from before a change of the map. Passes the
  // fence.
  Task<bool> is_uncontested(const RegisterRef& ref, Ballot ballot, Deadline deadline);
  // Is the volume one of the map that is there to stay?
  bool stays(VolumeId volume) const;
  // After `stale_epoch` from a volume: asks the volumes for a newer map, waits a moment.
  Awaitable<void> learn_map();

  OpId new_op_id();
  // Accepts still under way past their majority (R5); 0 at rest.
  std::size_t stragglers() const;
  // Waits until no straggler is left. Call before the volumes go away.
  Awaitable<void> drain();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Accepts and reads need this many of R.
inline std::size_t majority(std::size_t replicas) { return replicas / 2 + 1; }

}  // namespace penstock
