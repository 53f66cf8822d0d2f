// What the rounds of one proposer share.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "penstock/limits.h"
#include "penstock/planted.h"
#include "server/membership/map_learner.h"
#include "server/membership/register_groups.h"
#include "server/proposer/straggler_set.h"

namespace penstock {

struct ProposerContext {
  ProposerContext(Membership& m, Clock& c, Random& r, std::size_t chain = limits::kChainMax)
      : chain_max(chain),
        membership(m),
        clock(c),
        random(r),
        groups(m),
        learner(m, c),
        process(holds(Rule::process_id) ? r.next() : 1) {}

  const std::size_t chain_max;  // of the values that it makes (R8)
  Membership& membership;
  Clock& clock;
  Random& random;
  RegisterGroups groups;
  MapLearner learner;
  // Shared with the calls under way, which may outlive the proposer when a process ends in
  // disorder.
  const std::shared_ptr<StragglerSet> stragglers = std::make_shared<StragglerSet>();
  const std::uint64_t process;  // makes ballots of this process start unique (R2)
  std::atomic<std::uint64_t> operations{0};
};

}  // namespace penstock
