// The rules of one acceptor, apart from threads and disk: which ballots pass, and by its gate which
// epochs and bucket numbers are current. Source: CASPaxos (Rystsov, 2018); rules R2 (future bound),
// R4 (ceiling and restart floor), R5 (accept), R9 (horizon), R12 (epochs), and the bucket fence.
// Durable state enters here only after its sync. If it were here before, and its batch were not
// written, the next call for it would find nothing to write.
// Thread-safety: none; the register store locks.
#pragma once
#include <algorithm>
#include <cstdint>

#include "penstock/planted.h"
#include "penstock/volume_client.h"
#include "server/volume/acceptor/promise_table.h"
#include "server/volume/acceptor/round_gate.h"
#include "server/volume/rows/volume_meta.h"

namespace penstock {

enum class Verdict : std::uint8_t {
  pass,
  repeat,  // accept: exactly this ballot was accepted before
  refuse,
  refuse_future,  // prepare: further ahead of this volume's clock than R2 allows
  raise_ceiling,  // prepare: passes once the ceiling is above it
};

class AcceptorState {
 public:
  // A start: everything at or below the stored ceiling may have been promised before.
  explicit AcceptorState(const VolumeMeta& meta, std::size_t promise_slots = PromiseTable::kSlots);

  const RoundGate& gate() const { return gate_; }
  RoundGate& gate() { return gate_; }

  // `accepted`: the ballot of the synced row. pass: the promise is given.
  Verdict prepare(std::uint64_t key_hash, Ballot ballot, bool follows, Ballot accepted,
                  WallTime now);
  // pass: the accept may be written; from now on lower ballots are refused.
  Verdict accept(std::uint64_t key_hash, Ballot ballot, Ballot accepted);
  // The same for a row that cannot be read: passes only what is above all this volume has accepted.
  Verdict accept_blind(std::uint64_t key_hash, Ballot ballot);
  // The accept is durable.
  void accepted(std::uint64_t key_hash, Ballot ballot);
  // The smallest counter that a prepare would need (R2).
  Ballot demand(std::uint64_t key_hash, Ballot accepted) const;

  std::uint64_t ceiling() const { return ceiling_; }
  void raise_ceiling(std::uint64_t counter) { ceiling_ = std::max(ceiling_, counter); }
  // What the ceiling should become for promises around this counter (R4).
  static std::uint64_t ceiling_for(std::uint64_t counter);
  // True when less than half of a step is left: time to raise it in the background.
  bool ceiling_is_near(std::uint64_t counter) const;

  std::uint64_t horizon() const { return horizon_; }
  void raise_horizon(std::uint64_t counter) { horizon_ = std::max(horizon_, counter); }

 private:
  std::uint64_t limit() const { return holds(Rule::horizon) ? std::max(floor_, horizon_) : floor_; }

  PromiseTable promises_;
  const std::uint64_t floor_;
  std::uint64_t ceiling_;
  std::uint64_t horizon_;
  std::uint64_t accepted_max_;  // no row of this volume has a higher counter
  RoundGate gate_;
};

}  // namespace penstock
