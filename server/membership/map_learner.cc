#include "server/membership/map_learner.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "penstock/caught.h"
#include "penstock/limits.h"
#include "penstock/log.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kPause{10};

using Map = std::shared_ptr<const ClusterMap>;

// Volumes of this very process: they are the map's source, and nobody else changes it.
bool is_of_one_process(const ClusterMap& map) {
  return std::all_of(map.volumes.begin(), map.volumes.end(),
                     [](const MapVolume& volume) { return volume.address.empty(); });
}

Map newest_of(const std::vector<HeldMap>& held) {
  Map newest;
  for (const HeldMap& each : held) {
    if (each.map && (!newest || each.map->epoch > newest->epoch)) newest = each.map;
  }
  return newest;
}

}  // namespace

Task<> MapLearner::ask_all() {
  MapSurvey::Reach reach = [this](const ClusterMap& map) { return membership_.reach(map); };
  const Epoch own = membership_.map()->epoch;
  const auto held = co_await survey_.ask_newer(membership_.volumes(), std::move(reach), own, clock_,
                                               limits::kRegisterCall);
  const bool alone = is_of_one_process(*membership_.map());
  const MapVerdict verdict = judge_maps(nullptr, false, held);
  const Map map = alone ? newest_of(held) : verdict.follow;
  const bool agreed = !alone && verdict.agreed;
  if (map) CO_CHECK(membership_.adopt(map, agreed ? SameEpoch::replaced : SameEpoch::stays));
  co_return Result<>{};
}

Awaitable<void> MapLearner::learn() {
  if (!asking_.exchange(true)) {
    Result<> asked;
    try {
      asked = co_await ask_all();
    } catch (...) {
      asked = error_of_exception("learning the map");
    }
    asking_.store(false);
    if (!asked) log_event(LogLevel::warn, "map_refused", {{"reason", asked.error().context}});
  }
  co_await clock_.sleep_until(clock_.boot() + kPause);
}

}  // namespace penstock
