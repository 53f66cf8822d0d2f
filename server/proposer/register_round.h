// The two steps of a register round: prepare (R2, R4) and accept (R5), sent to all replicas of a
// group, over with a majority. A round keeps the group and epoch that it began with (R12).
// Thread-safety: any I/O thread; one round belongs to one coroutine.
#pragma once
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/limits.h"
#include "server/proposer/ballot_source.h"
#include "server/proposer/proposer.h"
#include "server/proposer/proposer_context.h"

namespace penstock {

// The register of an operation, how its rounds count and when it ends.
struct RegisterTask {
  RegisterRef ref;
  bool pass_fence = false;
  Deadline deadline;
  Duration patience = limits::kRegisterCall;  // for the answers to one step
};

// How a step ended.
enum class RoundEnd : std::uint8_t {
  majority,      // promised, or accepted
  refused,       // higher ballots stand in the way; the ballot source knows the demand
  no_quorum,     // too few answers in time, or too many errors
  stale_epoch,   // the group has changed
  stale_bucket,  // the bucket's number is fenced
};

struct Promises {
  RoundEnd end = RoundEnd::no_quorum;
  Error error;          // why there is no majority
  bool silent = false;  // those that have not answered may still give one
  Ballot ballot;
  Round round;
  std::shared_ptr<const RegisterGroup> group;
  // What each replica has accepted, by index; nullopt: it did not promise.
  boost::container::static_vector<std::optional<Accepted>, 2 * limits::kReplicasMax> rows;
  Accepted highest;           // of these rows; zero ballot: absent
  bool settled = false;       // a majority holds `highest` at its ballot
  std::uint64_t horizon = 0;  // the highest H of the quorum
};
Task<Promises> prepare_round(ProposerContext& context, const RegisterTask& task,
                             BallotSource& ballots);

struct Proposal {
  Ballot ballot;
  SharedBytes value;
  SharedBytes inline_bytes;
  IndexMask have_inline;  // these replicas hold the inline bytes already
  IndexMask holders;      // these hold (ballot, value) already: they are not sent it and count
  std::vector<Hint> hints;
  bool adds_nothing = false;
  bool wait_for_all = false;  // not only for a majority
};
struct AcceptEnd {
  RoundEnd end = RoundEnd::no_quorum;
  Error error;
  bool silent = false;  // as in Promises
  // All replicas answered, none accepted, and `error` is what a volume said: full, upload_not_open.
  bool rejected = false;
  bool by_all = false;  // every replica has answered that it holds the value at this ballot
};
// A replica that refuses a part for want of the upload's row is sent that row, then the part.
// `ballots` null: a re-send at another proposer's ballot (R6b), which learns no demand.
Task<AcceptEnd> accept_round(ProposerContext& context, const RegisterTask& task,
                             std::shared_ptr<const RegisterGroup> group, Proposal proposal,
                             BallotSource* ballots);

// The value of a row; null: absent. Errors: corrupt.
Result<std::shared_ptr<const RegisterValue>> value_of(const RegisterKey& key, const Accepted& row);
// `promises.highest` to be accepted again at the round's ballot, with its inline bytes from a
// replica that promised them. Errors: unavailable - no replica answers with the inline bytes.
Task<Proposal> highest_again(ProposerContext& context, const RegisterTask& task,
                             const Promises& promises, const RegisterValue& value);
// The tombstone of a complete write-back for an absent key.
Proposal tombstone_of_absent(const RegisterTask& task, Ballot ballot);

Round make_round(const RegisterGroup& group, const RegisterRef& ref, bool pass_fence);
// Until when the answers to calls begun now count.
Deadline call_end(const ProposerContext& context, const RegisterTask& task);
// A random pause, longer with each attempt; the first is short. `why`: what ended the last one:
// volumes with too much to do are left alone for a while.
Awaitable<void> retry_wait(ProposerContext& context, unsigned attempt, Errc why);

}  // namespace penstock
