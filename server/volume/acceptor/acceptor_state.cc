#include "server/volume/acceptor/acceptor_state.h"

#include "penstock/assert.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

constexpr auto kStep = static_cast<std::uint64_t>(Duration(limits::kCeilingStep).count());
constexpr auto kFuture = static_cast<std::uint64_t>(Duration(limits::kFutureBound).count());

std::uint64_t add(std::uint64_t counter, std::uint64_t step) {
  return counter > ~step ? ~std::uint64_t{0} : counter + step;  // counters come from the network
}

}  // namespace

AcceptorState::AcceptorState(const VolumeMeta& meta, std::size_t promise_slots)
    : promises_(promise_slots),
      floor_(holds(Rule::restart_floor) ? meta.ceiling : 0),
      ceiling_(meta.ceiling),
      horizon_(meta.horizon),
      accepted_max_(meta.ceiling),
      gate_(meta) {}

Verdict AcceptorState::prepare(std::uint64_t key_hash, Ballot ballot, bool follows, Ballot accepted,
                               WallTime now) {
  const Ballot promised = promises_.get(key_hash);
  if (ballot.counter <= limit() || ballot < promised) return Verdict::refuse;
  if (ballot < accepted || (ballot == accepted && ballot != promised)) return Verdict::refuse;
  if (!follows && holds(Rule::future_bound)) {
    const auto clock =
        static_cast<std::uint64_t>(std::max<std::int64_t>(now.time_since_epoch().count(), 0));
    if (ballot.counter > add(std::max({clock, ceiling_, horizon_}), kFuture)) {
      return Verdict::refuse_future;
    }
  }
  if (ballot.counter > ceiling_) return Verdict::raise_ceiling;
  PENSTOCK_ASSERT(ballot.counter > limit() && ballot >= promised);
  promises_.put(key_hash, ballot);
  return Verdict::pass;
}

Verdict AcceptorState::accept(std::uint64_t key_hash, Ballot ballot, Ballot accepted) {
  if (ballot == accepted) return Verdict::repeat;
  const Ballot promised = promises_.get(key_hash);
  if (ballot < promised && holds(Rule::promise)) return Verdict::refuse;
  if (ballot.counter <= limit() || ballot < accepted) return Verdict::refuse;
  PENSTOCK_ASSERT(ballot > accepted && (ballot >= promised || !holds(Rule::promise)));
  promises_.put(key_hash, ballot);
  accepted_max_ = std::max(accepted_max_, ballot.counter);
  return Verdict::pass;
}

Verdict AcceptorState::accept_blind(std::uint64_t key_hash, Ballot ballot) {
  if (ballot.counter <= accepted_max_) return Verdict::refuse;
  return accept(key_hash, ballot, Ballot{});
}

void AcceptorState::accepted(std::uint64_t key_hash, Ballot ballot) {
  PENSTOCK_ASSERT(ballot.counter <= accepted_max_);  // it passed accept()
  promises_.settle(key_hash, ballot);
}

Ballot AcceptorState::demand(std::uint64_t key_hash, Ballot accepted) const {
  const Ballot highest = std::max(promises_.get(key_hash), accepted);
  return Ballot{add(std::max(highest.counter, limit()), 1), 0, 0};
}

std::uint64_t AcceptorState::ceiling_for(std::uint64_t counter) { return add(counter, kStep); }

bool AcceptorState::ceiling_is_near(std::uint64_t counter) const {
  return add(counter, kStep / 2) > ceiling_;
}

}  // namespace penstock
