#include "server/background/replacement/volume_replacement.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/background/replacement/replacement_context.h"
#include "server/membership/map_install.h"
#include "server/membership/replica_set.h"

namespace penstock {
namespace {

using Map = std::shared_ptr<const ClusterMap>;

std::string name_in(const ClusterMap& map, VolumeId id) {
  const MapVolume* volume = map.find(id);
  return volume == nullptr ? "?" : volume->name;
}

// Do more than half of the volumes of `map` hold it? Then whoever starts from more than half of
// them finds it.
bool is_held(const ClusterMap& map, const std::vector<VolumeId>& holders) {
  const auto held = std::count_if(map.volumes.begin(), map.volumes.end(), [&](const auto& volume) {
    return std::find(holders.begin(), holders.end(), volume.id) != holders.end();
  });
  return static_cast<std::size_t>(held) * 2 > map.volumes.size();
}

std::string why_not(const Installed& installed) {
  return installed.failed.empty() ? "too few volumes are there"
                                  : installed.failed.front().second.context;
}

// Is a majority of each group's replicas open?
bool enough_open(const Membership& membership, const ClusterMap& map) {
  std::vector<VolumeId> open;
  for (const auto& client : membership.volumes()) {
    if (client->status().state == VolumeStatus::State::open) open.push_back(client->id());
  }
  return covers(map, open, false);
}

}  // namespace

struct VolumeReplacement::State {
  // A joint map, and those that are to hold it.
  struct Begun {
    Map map;
    Volumes volumes;
  };

  explicit State(ReplacementParts parts) : context(std::move(parts)) {}

  Membership& membership() { return context.parts.membership; }
  Map map() const { return context.parts.membership.map(); }

  // Brings the volumes to `next`; then this process, once more than half of the volumes of the map
  // before and of `next` hold it: before that it may be lost again with them, and with it whatever
  // was placed by it. Errors: unavailable - too few hold it; some may; those of the source, and
  // then none does.
  Task<Installed> install(Map next, Volumes volumes) {
    const Map before = map();
    if (context.parts.to_source && next->epoch > before->epoch) {
      CO_CHECK(co_await context.parts.to_source(next));
    }
    CO_TRY(installed,
           co_await install_map(next, std::move(volumes), context.parts.clock, context.soon()));
    some_behind = !installed.failed.empty();
    for (const auto& [id, error] : installed.failed) {
      if (error.code != Errc::stale_epoch) continue;
      co_await context.parts.proposer.learn_map();  // another process has gone on
      break;
    }
    const bool durable = is_held(*before, installed.adopted) && is_held(*next, installed.adopted);
    const bool enough = holds(Rule::map_durable) ? durable : !installed.adopted.empty();
    if (!enough) {
      some_hold = !installed.adopted.empty();
      co_return fail(Errc::unavailable, "the map has reached " +
                                            std::to_string(installed.adopted.size()) + " of " +
                                            std::to_string(next->volumes.size()) +
                                            " volumes, no majority: " + why_not(installed));
    }
    CO_CHECK(membership().adopt(next));
    if (context.parts.on_map) context.parts.on_map(next);
    co_return installed;
  }

  // The volumes that answer under the epochs of the map. Errors: unavailable - no majority does.
  Task<Volumes> installed_volumes() {
    CO_TRY(installed, co_await install(map(), membership().volumes()));
    if (!installed.reached && holds(Rule::map_reached)) {
      co_return fail(Errc::unavailable,
                     "the map has not reached a majority: " + why_not(installed));
    }
    Volumes volumes;
    for (const VolumeId id : installed.adopted) {
      // One may have left meanwhile, by a newer map from another process.
      if (auto client = membership().volume(id)) volumes.push_back(std::move(client));
    }
    co_return volumes;
  }

  // Is the joining volume away, and may still come?
  bool waits_for(VolumeId joining, bool joined) {
    const BootTime now = context.parts.clock.boot();
    if (joined || seen_joining.first != joining) seen_joining = {joining, now};
    return !joined && now < seen_joining.second + context.parts.options.join_patience;
  }

  Task<> step(MapChange change) {
    const Map now = map();
    CO_TRY(volumes, co_await installed_volumes());
    if (change.phase == MapChange::Phase::joint) {
      // The joining volume has no rows that the old list lacks.
      const auto erased = std::erase_if(
          volumes, [&](const auto& client) { return client->id() == change.joining; });
      if (waits_for(change.joining, erased > 0)) {
        co_return fail(Errc::unavailable, "the new volume is away");
      }
      CO_CHECK(co_await bring_rows(context, now, std::move(volumes)));
      CO_TRY(next, end_joint(*now));
      co_return co_await advance(std::move(next), "rows_brought");
    }
    CO_TRY(whole, co_await move_fragments(context, now, std::move(volumes)));
    if (!whole && holds(Rule::fragments_moved)) co_return Result<>{};
    CO_TRY(next, end_replacement(*now));
    CO_CHECK(co_await advance(std::move(next), "volume_replaced"));
    context.board.change([](ReplacementStatus& status) { ++status.replaced; });
    co_return Result<>{};
  }

  Task<> advance(ClusterMap next, const char* event) {
    auto shared = std::make_shared<const ClusterMap>(std::move(next));
    log_event(LogLevel::info, event, {{"map_epoch", std::to_string(shared->epoch.value)}});
    CO_CHECK(co_await install(shared, membership().volumes()));
    co_return Result<>{};
  }

  void show(const std::optional<MapChange>& change, std::string why) {
    context.board.change([&](ReplacementStatus& status) {
      status.active = change.has_value();
      status.leaving = change ? change->leaving : VolumeId{};
      status.joining = change ? change->joining : VolumeId{};
      status.trouble = std::move(why);
      if (!change) status.what.clear();
    });
  }

  static Awaitable<void> run(std::shared_ptr<State> self) {
    ReplacementContext& context = self->context;
    while (!context.stopping.load()) {
      try {
        co_await self->handle();
      } catch (...) {
        report_exception("a replacement");
      }
      co_await self->wait(context.parts.options.look_every);
    }
    self->running = false;
  }

  // One look at the map, and the next step of a change.
  Awaitable<void> handle() {
    if (begun && !beginning) co_await begin_again();
    const auto change = change_of(*map());
    if (change && !beginning) {
      show(change, trouble);
      Result<> done;
      try {
        done = co_await step(*change);
      } catch (...) {
        done = error_of_exception("a replacement");
      }
      trouble = done ? "" : done.error().context;
      show(change_of(*map()), trouble);
      if (!done && !context.stopping.load()) {
        log_event(LogLevel::warn, "replacement_waits", {{"reason", trouble}});
        co_await wait(context.parts.options.retry_after);
      }
    } else if (some_behind && !beginning && !begun) {
      co_await bring_up_to_date();
    }
  }

  // Errors: unavailable - too few volumes hold the joint map. If some do there is no way back: it
  // is tried again until the others have it.
  Task<> install_joint(Begun joint) {
    some_hold = false;
    const auto installed = co_await install(joint.map, joint.volumes);
    if (!installed && some_hold) begun = joint;
    if (!installed) co_return installed.error();
    begun.reset();
    show(change_of(*joint.map), "");
    co_return Result<>{};
  }

  Awaitable<void> begin_again() {
    if (map()->epoch >= begun->map->epoch) {  // learned from a volume
      begun.reset();
      co_return;
    }
    const auto done = co_await install_joint(*begun);
    if (done) co_return;
    show(change_of(*begun->map), done.error().context);
    co_await wait(context.parts.options.retry_after);
  }

  // A volume that was away during a change is still at older epochs when it comes back.
  Awaitable<void> bring_up_to_date() {
    const auto installed = co_await install(map(), membership().volumes());
    if (!installed || some_behind) co_await wait(context.parts.options.retry_after);
  }

  Awaitable<void> wait(Duration pause) {
    co_await context.parts.clock.sleep_until(context.parts.clock.boot() + pause);
  }

  ReplacementContext context;
  std::string trouble;
  std::pair<VolumeId, BootTime> seen_joining;  // when it was there last, or was first looked for
  bool beginning = false;
  bool some_hold = false;      // a volume holds the map that has not reached enough of them
  std::optional<Begun> begun;  // the same of a joint map
  bool some_behind = true;     // a volume may not have the map: nobody knows at the start
  bool running = false;
};

VolumeReplacement::VolumeReplacement(ReplacementParts parts)
    : state_(std::make_shared<State>(std::move(parts))) {}

VolumeReplacement::~VolumeReplacement() { state_->context.stopping.store(true); }

Task<> VolumeReplacement::begin(VolumeId leaving, MapVolume joining,
                                std::shared_ptr<VolumeClient> client) {
  const auto state = state_;
  if (state->beginning || state->begun) {
    co_return fail(Errc::busy, "another volume is being replaced");
  }
  const Map now = state->map();
  CO_TRY(next, begin_replacement(*now, leaving, std::move(joining)));
  if (!enough_open(state->membership(), *now)) {
    co_return fail(Errc::unavailable,
                   "too few volumes are open: a majority of each register group is needed");
  }
  auto shared = std::make_shared<const ClusterMap>(std::move(next));
  const auto change = change_of(*shared);
  log_event(LogLevel::info, "replacement_begins",
            {{"leaving", name_in(*shared, leaving)},
             {"joining", name_in(*shared, change->joining)},
             {"map_epoch", std::to_string(shared->epoch.value)}});
  Volumes volumes = state->membership().volumes();
  volumes.push_back(std::move(client));
  state->beginning = true;
  State::Begun joint{shared, std::move(volumes)};
  Result<> installed = fail(Errc::io, "no answer");
  try {
    installed = co_await state->install_joint(std::move(joint));
  } catch (...) {
    installed = error_of_exception("the begin of a replacement");
  }
  state->beginning = false;
  if (installed) co_return installed;
  if (!state->begun) co_return installed.error();
  state->show(change, installed.error().context);
  co_return fail(installed.error().code,
                 installed.error().context + "; it goes on by itself when more have it");
}

void VolumeReplacement::start(Executor executor) {
  state_->running = true;
  boost::asio::co_spawn(executor, State::run(state_), boost::asio::detached);
}

void VolumeReplacement::stop() { state_->context.stopping.store(true); }

Awaitable<void> VolumeReplacement::finish() {
  const auto state = state_;
  while (state->running) co_await state->wait(std::chrono::milliseconds(10));
}

ReplacementStatus VolumeReplacement::status() const { return state_->context.board.read(); }

}  // namespace penstock
