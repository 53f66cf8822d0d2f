#include "server/proposer/proposer.h"

#include "penstock/assert.h"
#include "server/proposer/key_queue.h"
#include "server/proposer/proposer_context.h"
#include "server/proposer/purge_round.h"
#include "server/proposer/read_round.h"
#include "server/proposer/update_round.h"
#include "server/proposer/write_back_round.h"

namespace penstock {

struct Proposer::State {
  State(Membership& membership, Clock& clock, Random& random, std::size_t chain_max)
      : context(membership, clock, random, chain_max), queue(clock) {}

  Task<Snapshot> update(RegisterTask task, RegisterUpdate* update) {
    const BootTime asked = context.clock.boot();
    CO_TRY(turn, co_await queue.enter(task.ref.key, task.deadline));
    co_return co_await update_round(context, std::move(task), asked, *update);
  }

  ProposerContext context;
  KeyQueue queue;
};

Proposer::Proposer(Membership& membership, Clock& clock, Random& random, std::size_t chain_max)
    : state_(std::make_unique<State>(membership, clock, random, chain_max)) {
  PENSTOCK_ASSERT(chain_max > 0 && chain_max <= limits::kChainMax);
}

Proposer::~Proposer() = default;

Task<Snapshot> Proposer::read(const RegisterRef& ref, ReadWant want, Deadline deadline) {
  return read_round(state_->context, RegisterTask{ref, false, deadline}, want);
}

std::optional<Snapshot> Proposer::read_now(const RegisterRef& ref, ReadWant want) {
  return read_at_once(state_->context, ref, want);
}

Task<Snapshot> Proposer::write_back(const RegisterRef& ref, WriteBack how, bool background,
                                    Deadline deadline) {
  return write_back_round(state_->context, RegisterTask{ref, background, deadline}, how);
}

Task<Snapshot> Proposer::read_background(const RegisterRef& ref, ReadWant want, Deadline deadline) {
  return read_round(state_->context, RegisterTask{ref, true, deadline}, want);
}

Task<bool> Proposer::is_uncontested(const RegisterRef& ref, Ballot ballot, Deadline deadline) {
  return uncontested_round(state_->context, RegisterTask{ref, true, deadline}, ballot);
}

bool Proposer::stays(VolumeId volume) const { return state_->context.membership.stays(volume); }

Awaitable<void> Proposer::learn_map() { return state_->context.learner.learn(); }

Task<Snapshot> Proposer::update(const RegisterRef& ref, RegisterUpdate& update, Deadline deadline) {
  return state_->update(RegisterTask{ref, false, deadline}, &update);
}

Task<Snapshot> Proposer::update_background(const RegisterRef& ref, RegisterUpdate& update,
                                           Deadline deadline) {
  return state_->update(RegisterTask{ref, true, deadline}, &update);
}

Task<std::optional<TombstoneMark>> Proposer::mark_tombstone(const RegisterRef& ref,
                                                            Deadline deadline) {
  return mark_round(state_->context, RegisterTask{ref, true, deadline});
}

Task<DropEnd> Proposer::drop_tombstone(const RegisterRef& ref, TombstoneMark mark,
                                       Deadline deadline) {
  return drop_round(state_->context, RegisterTask{ref, true, deadline}, mark);
}

OpId Proposer::new_op_id() { return state_->context.random.id128<OpId>(); }

std::size_t Proposer::stragglers() const { return state_->context.stragglers->count(); }

Awaitable<void> Proposer::drain() { return state_->context.stragglers->drain(); }

}  // namespace penstock
