#include "server/map_source/map_follower.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "penstock/caught.h"
#include "penstock/keep_running.h"
#include "penstock/log.h"
#include "server/map_source/apart_volumes.h"

namespace penstock {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(250);
constexpr Duration kRestingTick = std::chrono::seconds(1);  // all is well
constexpr Duration kEndLook = std::chrono::milliseconds(25);
constexpr Duration kAskVolumes = std::chrono::milliseconds(500);
constexpr Duration kAskSource = std::chrono::seconds(2);
constexpr Duration kWaitForChange = std::chrono::seconds(30);
constexpr Duration kLookEvery = std::chrono::seconds(15);        // all is well
constexpr Duration kLookAgain = std::chrono::milliseconds(500);  // it is not
constexpr Duration kLookFirst = std::chrono::milliseconds(100);  // there is no map yet
// For volumes to say what they hold, before a head counts that no majority is known to agree with.
constexpr Duration kHeadAlone = std::chrono::seconds(2);
constexpr Duration kInstall = std::chrono::seconds(10);
constexpr Duration kMeetEvery = std::chrono::seconds(1);
constexpr Duration kSourceRetry = std::chrono::seconds(1);

// Does a volume hold a map of an earlier epoch that names a volume which `map` lacks? While no
// majority answers, that map may be the one that counts.
bool lacks_volumes(const ClusterMap& map, const std::vector<HeldMap>& held) {
  return std::any_of(held.begin(), held.end(), [&map](const HeldMap& each) {
    return each.map && each.map->epoch < map.epoch && find_lost(map, *each.map) != nullptr;
  });
}

bool names_any(const ClusterMap& map, const VolumeClients& volumes) {
  return std::any_of(volumes.begin(), volumes.end(),
                     [&](const auto& volume) { return map.find(volume->id()) != nullptr; });
}

}  // namespace

std::string map_lines(const MapState& state) {
  std::string text =
      state.epoch.value == 0 ? "no map yet" : "map of epoch " + std::to_string(state.epoch.value);
  if (!state.source.empty()) text += " from " + state.source;
  text += "\n";
  if (!state.source_error.empty()) {
    text += "map source away: " + state.source_error + "; nothing can be changed meanwhile\n";
  }
  if (state.trouble != MapTrouble::none) {
    text += "map trouble: " + std::string(to_string(state.trouble)) + ": " + state.meaning + "\n";
  }
  return text;
}

struct MapFollower::State {
  explicit State(FollowerParts p) : parts(std::move(p)) {
    if (parts.source != nullptr) told.source = parts.source->name();
  }

  BootTime now() const { return parts.clock.boot(); }
  template <class Change>
  void tell(Change change) {
    const std::lock_guard lock(mutex);
    change(told);
  }

  // ---- the source

  static Awaitable<void> watch(std::shared_ptr<State> self) {
    while (!self->stopping) {
      // One that was away is waited for shortly: that it is back is told when the wait has ended.
      const bool was_away = !self->source_error.empty();
      const BootTime until = self->now() + (was_away ? kAskSource : kWaitForChange);
      auto head = co_await self->parts.source->wait_for_change(self->seen, until);
      if (self->stopping) break;
      const bool away = !head && head.error().code != Errc::timeout;
      self->tell_source(away ? head.error().context : "");
      if (head) {
        self->seen = head->revision;
        self->news = true;
        self->wakeup.notify();
      }
      if (away) co_await self->parts.clock.sleep_until(self->now() + kSourceRetry);
    }
  }

  void tell_source(const std::string& error) {
    const bool changes = error.empty() != source_error.empty();
    source_error = error;
    tell([&](MapState& state) { state.source_error = error; });
    if (!changes) return;
    if (error.empty()) {
      log_event(LogLevel::info, "map_source_answers", {{"source", parts.source->name()}});
    } else {
      log_event(LogLevel::warn, "map_source_away",
                {{"reason", error}, {"meaning", "reads and writes go on; no change of the map"}});
    }
  }

  // ---- one look

  Result<> take(const std::shared_ptr<const ClusterMap>& map, SameEpoch other) {
    CHECK_OK(parts.take(map, other));
    log_event(LogLevel::info, "map_followed", {{"epoch", std::to_string(map->epoch.value)}});
    return {};
  }

  // A candidate takes no map that does not name it.
  bool concerns(const ClusterMap& map) const {
    const VolumeClients own = parts.own();
    return own.empty() || parts.current() != nullptr || names_any(map, own);
  }

  Task<> bring_up_own(std::shared_ptr<const ClusterMap> map) {
    VolumeClients own = parts.own();
    std::erase_if(own, [&](const auto& volume) { return map->find(volume->id()) == nullptr; });
    if (own.empty()) co_return Result<>{};
    const auto until = now() + kInstall;
    CO_TRY(installed, co_await install_map(map, std::move(own), parts.clock, until));
    if (installed.failed.empty()) co_return Result<>{};
    // One that joins takes over what the others know.
    CO_TRY(all, co_await install_map(map, parts.clients(map.get()), parts.clock, until));
    (void)all;
    co_return Result<>{};
  }

  Task<MapHead> read_head() {
    if (parts.source == nullptr) co_return fail(Errc::not_found, "no source");
    co_return co_await parts.source->read(now() + kAskSource);
  }

  // A head of the epoch after that of this process is followed at once. A process that is at none,
  // or has missed a map, asks the volumes first: what it has missed may name volumes that the head
  // lacks.
  Task<> follow_head() {
    CO_TRY(head, co_await read_head());
    const auto map = parts.current();
    const bool next = map && head.map && head.map->epoch.value == map->epoch.value + 1;
    if (!next || find_lost(*head.map, *map) != nullptr) co_return Result<>{};
    CO_CHECK(take(head.map, SameEpoch::stays));
    co_return co_await bring_up_own(head.map);
  }

  bool may_take(const MapVerdict& verdict, const std::vector<HeldMap>& held) const {
    const ClusterMap& next = *verdict.follow;
    const auto map = parts.current();
    if (map == nullptr) {
      const bool alone = head_known && now() >= *head_known + kHeadAlone;
      return verdict.majority || (alone && !is_contradicted(next, held));
    }
    if (!verdict.majority && (find_lost(next, *map) != nullptr || lacks_volumes(next, held))) {
      return false;
    }
    return takes_place_of(next, *map, same_epoch(verdict));
  }
  static SameEpoch same_epoch(const MapVerdict& verdict) {
    return verdict.agreed ? SameEpoch::replaced : SameEpoch::stays;
  }
  // Is it certain enough for the volumes of this process?
  bool is_sure(const MapVerdict& verdict) const {
    const auto map = parts.current();
    return map != nullptr && (verdict.majority || map->digest == verdict.follow->digest);
  }

  Task<> look() {
    const auto map = parts.current();
    const auto named = map ? map : last_head;
    MapSurvey::Reach reach = [this](const ClusterMap& newer) { return parts.clients(&newer); };
    const Epoch own = map ? map->epoch : Epoch{};
    const auto held = co_await survey.ask_newer(parts.clients(named.get()), std::move(reach), own,
                                                parts.clock, kAskVolumes);
    const auto head = co_await read_head();
    if (head) last_head = head->map;
    if (last_head && !head_known) head_known = now();
    const MapHead told_head = head ? *head : MapHead{};
    const MapVerdict verdict =
        judge_maps(told_head.map, head.has_value(), held, told_head.unreadable);
    if (!is_starting() || verdict.trouble != MapTrouble::no_majority) tell_trouble(verdict);
    settled = verdict.follow != nullptr && verdict.trouble == MapTrouble::none;
    const bool takes = verdict.follow && concerns(*verdict.follow) && may_take(verdict, held);
    if (takes) CO_CHECK(take(verdict.follow, same_epoch(verdict)));
    tell_apart(held);
    if (!verdict.follow || !concerns(*verdict.follow)) co_return Result<>{};
    if (takes || (is_sure(verdict) && lags(verdict))) {
      settled = false;
      CO_CHECK(co_await bring_up_own(verdict.follow));
    }
    co_return Result<>{};
  }

  void tell_apart(const std::vector<HeldMap>& held) {
    const auto map = parts.current();
    if (map == nullptr) return;
    const auto ids = apart.look(now(), *map, held);
    if (parts.apart) parts.apart(ids);
  }

  // It has just begun: most volumes are not connected yet.
  bool is_starting() const { return parts.current() == nullptr && now() < began + kHeadAlone; }
  Duration pause(const Result<>& done) const {
    if (is_starting()) return kLookFirst;
    return done && settled ? kLookEvery : kLookAgain;
  }

  bool lags(const MapVerdict& verdict) const {
    const VolumeClients own = parts.own();
    return std::any_of(own.begin(), own.end(), [&](const auto& volume) {
      return std::find(verdict.lag.begin(), verdict.lag.end(), volume->id()) != verdict.lag.end();
    });
  }

  // Between two looks a change may be under way: what is said is what two of them found.
  void tell_trouble(const MapVerdict& verdict) {
    const bool twice = std::exchange(found, verdict.trouble) == verdict.trouble;
    if (!twice && verdict.trouble != MapTrouble::none) return;
    const auto before = state_now().trouble;
    tell([&](MapState& state) {
      state.trouble = verdict.trouble;
      state.meaning = verdict.meaning;
    });
    if (before == verdict.trouble) return;
    if (verdict.trouble == MapTrouble::none) {
      log_event(LogLevel::info, "map_trouble_over", {{"was", std::string(to_string(before))}});
    } else {
      log_event(LogLevel::error, "map_trouble",
                {{"what", std::string(to_string(verdict.trouble))}, {"meaning", verdict.meaning}});
    }
  }

  MapState state_now() const {
    const std::lock_guard lock(mutex);
    return told;
  }

  static Awaitable<void> run(std::shared_ptr<State> self) {
    BootTime next = self->now();
    while (!self->stopping) {
      Result<> done;
      const bool news = std::exchange(self->news, false);
      const bool moved = self->parts.moved();  // then it may have missed a map
      if (news && !moved) done = co_await self->follow_head();
      if (!self->stopping && (news || moved || self->now() >= next)) {
        done = co_await self->look();
        next = self->now() + self->pause(done);
      }
      self->tell_failure(done);
      co_await self->look_for_missing();
      if (!self->stopping)
        co_await self->wakeup.wait(self->parts.clock, std::min(next, self->next_tick()));
    }
    self->running = false;
  }

  BootTime next_tick() const {
    const bool rests = settled && !parts.misses();
    return next_whole(now(), rests ? kRestingTick : kTick);
  }

  Awaitable<void> look_for_missing() {
    const bool may = parts.source != nullptr && parts.source->keeps_announcements();
    if (!may || stopping || now() < next_meeting || !parts.misses()) co_return;
    const auto all = co_await parts.source->announced(now() + kMeetEvery);
    next_meeting = now() + kMeetEvery;
    if (all && !stopping) parts.meet(*all);
  }

  void tell_failure(const Result<>& done) {
    const std::string now_failing = done ? "" : done.error().context;
    if (now_failing == std::exchange(failing, now_failing) || done) return;
    log_event(LogLevel::error, "map_refused", {{"reason", now_failing}});
  }

  const FollowerParts parts;
  MapSurvey survey;
  ApartVolumes apart;
  std::shared_ptr<const ClusterMap> last_head;  // that the source told; null: none
  BootTime began{};
  std::optional<BootTime> head_known;  // since when there is a map at the source
  Wakeup wakeup;
  std::optional<Executor> executor;  // once it has begun
  MapRevision seen;                  // of the source
  bool news = false;
  bool settled = false;
  std::atomic<bool> stopping{false};
  bool running = false;
  MapTrouble found = MapTrouble::none;  // by the last look
  std::string failing;
  BootTime next_meeting{};
  std::string source_error;
  mutable std::mutex mutex;  // guards the next
  MapState told;
};

MapFollower::MapFollower(FollowerParts parts) : state_(std::make_shared<State>(std::move(parts))) {}

MapFollower::~MapFollower() { stop(); }

void MapFollower::start(Executor executor) {
  constexpr ReportThrown kEnded{"the look at the map"};
  Clock& clock = state_->parts.clock;
  state_->running = true;
  state_->began = state_->now();
  state_->executor = executor;
  auto look = [state = state_] { return State::run(state); };
  boost::asio::co_spawn(executor, keep_running(clock, "the look at the map", look), kEnded);
  if (state_->parts.source == nullptr) return;
  auto watch = [state = state_] { return State::watch(state); };
  boost::asio::co_spawn(executor, keep_running(clock, "the watch of the map", watch), kEnded);
}

void MapFollower::stop() {
  if (state_->stopping.exchange(true) || !state_->executor) return;
  boost::asio::post(*state_->executor, [state = state_] { state->wakeup.notify(); });
}

Awaitable<void> MapFollower::finish() {
  const auto state = state_;
  while (state->running) co_await state->parts.clock.sleep_until(state->now() + kEndLook);
}

// A round may have learned a newer map meanwhile.
MapState MapFollower::state() const {
  MapState state = state_->state_now();
  const auto map = state_->parts.current();
  if (map) state.epoch = map->epoch;
  return state;
}

}  // namespace penstock
