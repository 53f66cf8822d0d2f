// Ballots of one operation (R2): the clock's, unless a majority demands more. The smallest counter
// that a majority would promise, never the highest demand: one replica in the future is left out
// and not followed. What was demanded is forgotten with the operation.
#pragma once
#include <cstdint>

#include "server/proposer/proposer_context.h"

namespace penstock {

class BallotSource {
 public:
  explicit BallotSource(ProposerContext& context)
      : clock_(context.clock), process_(context.process), operation_(++context.operations) {}
  Ballot next();
  // The counter of the last ballot is a majority's demand and beyond the clock: bounds on a
  // proposer's clock do not apply to it.
  bool follows() const { return follows_; }
  void demand(std::uint64_t counter) { demanded_ = counter; }

 private:
  Clock& clock_;
  std::uint64_t process_;
  std::uint64_t operation_;
  std::uint64_t last_ = 0;
  std::uint64_t demanded_ = 0;
  bool follows_ = false;
};

}  // namespace penstock
