#include "server/proposer/ballot_source.h"

#include <algorithm>
#include <utility>

#include "penstock/assert.h"
#include "penstock/planted.h"

namespace penstock {

Ballot BallotSource::next() {
  const auto wall_us = clock_.wall().time_since_epoch().count();
  const std::uint64_t clock_us = wall_us > 0 ? static_cast<std::uint64_t>(wall_us) : 0;
  follows_ = demanded_ > clock_us && holds(Rule::follows);
  const std::uint64_t before = std::exchange(last_, std::max({clock_us, last_ + 1, demanded_}));
  PENSTOCK_ASSERT(last_ > before);
  return Ballot{last_, process_, operation_};
}

}  // namespace penstock
