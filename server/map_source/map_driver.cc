#include "server/map_source/map_driver.h"

#include <algorithm>
#include <utility>

#include "penstock/planted.h"
#include "server/membership/map_survey.h"

namespace penstock {
namespace {

// Whoever changes the map must know what counts now.
Result<> may_change(const MapLook& look) {
  if (!look.has_source) {
    return fail(Errc::unavailable, "the map source does not answer: " + look.source_error);
  }
  if (forbids_change(look.verdict.trouble)) return fail(Errc::unavailable, look.verdict.meaning);
  return {};
}

// A replacement whose fate is not known is looked up: it happened if the head is this map.
Task<MapRevision> replace_head(MapSource& source, std::shared_ptr<const ClusterMap> map,
                               MapRevision expected, Deadline deadline) {
  if (!holds(Rule::map_compared)) {
    CO_TRY(now, co_await source.read(deadline));
    expected = now.revision;
  }
  auto replaced = co_await source.replace(map, std::move(expected), deadline);
  if (replaced || replaced.error().code != Errc::timeout) co_return replaced;
  const auto head = co_await source.read(deadline);
  if (!head || !head->map || head->map->digest != map->digest) co_return replaced;
  co_return head->revision;
}

Task<MapChanged> put(MapSource& source, const MapLook& look, ClusterMap next, VolumeClients clients,
                     Clock& clock, Deadline deadline) {
  MapChanged changed;
  changed.map = std::make_shared<const ClusterMap>(std::move(next));
  CO_TRY(revision, co_await replace_head(source, changed.map, look.head.revision, deadline));
  changed.revision = std::move(revision);
  CO_TRY(installed, co_await install_map(changed.map, std::move(clients), clock, deadline));
  changed.installed = std::move(installed);
  co_return changed;
}

}  // namespace

Awaitable<MapLook> look_at_maps(MapSource* source, VolumeClients clients, Clock& clock,
                                Deadline deadline) {
  MapLook look;
  MapSurvey survey;
  const Duration patience = deadline - clock.boot();
  look.held = co_await survey.ask(std::move(clients), clock, deadline);
  if (source != nullptr) {
    // A volume that hangs has taken all of the deadline.
    const Deadline until = clock.boot() + patience;
    auto head = co_await source->read(until);
    look.has_source = head.has_value();
    if (head) {
      look.head = std::move(*head);
    } else {
      look.source_error = head.error().context;
    }
  }
  look.verdict = judge_maps(look.head.map, look.has_source, look.held, look.head.unreadable);
  co_return look;
}

Task<MapChanged> change_map(MapSource& source, MapLook look, ClusterMap next, VolumeClients clients,
                            Clock& clock, Deadline deadline) {
  CO_CHECK(may_change(look));
  CO_TRY(raised, past_epoch(std::move(next), look.verdict.highest_seen));
  co_return co_await put(source, look, std::move(raised), std::move(clients), clock, deadline);
}

Task<MapChanged> restore_map(MapSource& source, MapLook look, VolumeClients clients, Clock& clock,
                             Deadline deadline) {
  if (!look.has_source) {
    co_return fail(Errc::unavailable, "the map source does not answer: " + look.source_error);
  }
  const MapVerdict& verdict = look.verdict;
  if (!verdict.follow || verdict.trouble == MapTrouble::no_majority) {
    co_return fail(Errc::unavailable,
                   verdict.meaning.empty() ? "no volume holds a map" : verdict.meaning);
  }
  ClusterMap next = *verdict.follow;
  const bool behind = verdict.trouble == MapTrouble::source_empty ||
                      verdict.trouble == MapTrouble::source_damaged ||
                      verdict.trouble == MapTrouble::source_behind;
  const bool forked = std::any_of(look.held.begin(), look.held.end(), [&](const HeldMap& each) {
    return each.map && each.map->epoch == next.epoch && each.map->digest != next.digest;
  });
  if (verdict.trouble == MapTrouble::none) {
    MapChanged same{verdict.follow, look.head.revision, {}};
    co_return same;
  }
  if (!behind || forked || verdict.highest_seen > next.epoch) {
    CO_TRY(raised, past_epoch(std::move(next), verdict.highest_seen));
    next = std::move(raised);
  }
  co_return co_await put(source, look, std::move(next), std::move(clients), clock, deadline);
}

}  // namespace penstock
