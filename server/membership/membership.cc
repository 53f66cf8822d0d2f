#include "server/membership/membership.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "penstock/assert.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "penstock/planted.h"
#include "server/membership/slow_volumes.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kTurnEarly{20};

// What the detector knows of one volume. Atomics instead of a lock: every call of every request
// asks.
struct Health {
  std::atomic<int> failures{0};              // of register calls, in a row
  std::atomic<int> fragment_failures{0};     // since the disk was last written
  std::atomic<std::uint32_t> suspect{0};     // by what: a set of Cause
  std::atomic<std::uint64_t> suspicions{0};  // how often it became one
  std::atomic<std::uint64_t> damaged{0};     // fragments that a read found missing or corrupt
  std::atomic<BootTime::rep> probed{0};      // when it became suspect or was last tried again
  std::atomic<BootTime::rep> read{0};        // the same of a slow one
  std::atomic<std::uint64_t> bytes{0};       // delivered in this window
  std::atomic<std::uint64_t> late_bytes{0};
  std::atomic<bool> apart{false};
  VolumePace pace;  // of the last window; guarded by State::pace_mutex
};

// True for one caller per interval. Those that come at whole seconds do so a little late, and the
// next time less late.
bool take_turn(std::atomic<BootTime::rep>& taken, BootTime::rep now, Duration every) {
  BootTime::rep last = taken.load();
  const BootTime::rep due = last + every.count() - Duration(kTurnEarly).count();
  return now >= due && taken.compare_exchange_strong(last, now);
}

enum Cause : std::uint32_t { kRegisters = 1, kFragments = 2, kSlow = 4 };
constexpr std::uint32_t kNoAnswers = kRegisters | kFragments;

struct Member {
  std::shared_ptr<VolumeClient> client;
  Health health;
  bool open() const { return client->status().state == VolumeStatus::State::open; }
};

// A probe keeps what it needs: its volume may answer when this is gone.
struct Probe {
  std::shared_ptr<Member> member;
  VolumeId id;
  std::string name;
  Deadline until;
};
Awaitable<void> run_probe(Probe probe) {
  Result<> answered;
  try {
    answered = co_await probe.member->client->probe(probe.until);
  } catch (...) {
    answered = error_of_exception("a probe of a volume");
  }
  if (!answered) co_return;
  Health& health = probe.member->health;
  health.failures.store(0);
  health.fragment_failures.store(0);
  if ((health.suspect.fetch_and(kSlow) & kNoAnswers) != 0) {
    log_event(LogLevel::info, "volume_answers_again", {{"volume", probe.name}});
  }
}

// Replaced maps are kept this long, in further maps: whoever still looks at one does so within one
// step of a coroutine, while each newer map has cost a sync of most volumes.
constexpr std::size_t kViewsKept = 64;

}  // namespace

struct Membership::State {
  // A map and what belongs to it. Immutable; only the atomics of the members change.
  struct Place {
    std::shared_ptr<Member> member;  // null: out of reach
    bool stays = true;
  };
  struct View {
    std::shared_ptr<const ClusterMap> map;
    std::shared_ptr<const Ring> ring;  // the next map may have the same
    std::unordered_map<VolumeId, Place> places;
  };

  State(Clock& c, Connector connector) : clock(c), connect(std::move(connector)) {}

  const View& view() const { return *current.load(std::memory_order_acquire); }
  Member* find(VolumeId id) const {
    const auto& places = view().places;
    const auto at = places.find(id);
    return at == places.end() ? nullptr : at->second.member.get();
  }
  BootTime::rep now() const { return clock.boot().time_since_epoch().count(); }
  void make_suspect(VolumeId id, Member& member, Cause cause) {
    if ((member.health.suspect.fetch_or(cause) & kNoAnswers) != 0) return;
    member.health.suspicions.fetch_add(1);
    member.health.probed.store(now());
    log_event(LogLevel::warn, "volume_suspect", {{"volume", name_of(id)}});
  }
  void clear(VolumeId id, Member& member, Cause cause) {
    const std::uint32_t before =
        member.health.suspect.fetch_and(~static_cast<std::uint32_t>(cause));
    if ((before & kNoAnswers) == cause) {
      log_event(LogLevel::info, "volume_answers_again", {{"volume", name_of(id)}});
    }
  }
  void end_pace_window();
  std::string name_of(VolumeId id) const {
    const MapVolume* volume = view().map->find(id);
    return volume == nullptr ? std::to_string(id.value) : volume->name;
  }
  bool has_room(VolumeId id) const {
    const Member* member = find(id);
    if (member == nullptr) return false;
    const VolumeStatus status = member->client->status();
    return status.state == VolumeStatus::State::open && !status.full;
  }
  bool is_suspect(VolumeId id) const {
    const Member* member = find(id);
    return member != nullptr && member->health.suspect.load() != 0;
  }

  // Of a volume that is no member yet; null: out of reach. Pre: change_mutex is held.
  std::shared_ptr<VolumeClient> meet(const MapVolume& volume) {
    const auto known = met.find(volume.id);
    if (known != met.end()) return known->second;
    auto client = connect ? connect(volume) : nullptr;
    if (client) met.emplace(volume.id, client);
    return client;
  }

  // Pre: change_mutex is held, or nobody else knows this yet.
  void install(std::shared_ptr<const ClusterMap> map, std::shared_ptr<const Ring> ring,
               std::vector<std::shared_ptr<VolumeClient>> clients) {
    PENSTOCK_ASSERT(map != nullptr && ring != nullptr);
    PENSTOCK_ASSERT(views.empty() || map->epoch >= view().map->epoch);
    auto next = std::make_unique<View>();
    next->map = std::move(map);
    next->ring = std::move(ring);
    for (const MapVolume& volume : next->map->volumes) {
      Place& place = next->places[volume.id];
      place.stays = volume.successor.value == 0;
      if (!views.empty()) {
        const auto known = view().places.find(volume.id);
        if (known != view().places.end()) place.member = known->second.member;
      }
    }
    for (auto& client : clients) {
      Place& place = next->places[client->id()];
      PENSTOCK_ASSERT(place.member == nullptr && "one client per volume");
      place.member = std::make_shared<Member>();
      place.member->client = std::move(client);
    }
    current.store(next.get(), std::memory_order_release);
    views.push_back(std::move(next));
    if (views.size() > kViewsKept) views.pop_front();
  }

  Clock& clock;
  const Connector connect;
  std::atomic<BootTime::rep> pace_due{0};  // when the window ends
  std::mutex pace_mutex;                   // guards the next, and Health::pace
  BootTime pace_began{};
  std::mutex change_mutex;                                          // guards the next two
  std::unordered_map<VolumeId, std::shared_ptr<VolumeClient>> met;  // by reach(), no members
  std::deque<std::unique_ptr<const View>> views;
  std::atomic<const View*> current{nullptr};  // the last of them; readers take no lock
};

// A window with too little to compare goes on, for a while.
void Membership::State::end_pace_window() {
  const BootTime::rep due_at = now();
  if (!take_turn(pace_due, due_at, Duration(kPaceWindow))) return;
  const std::lock_guard lock(pace_mutex);
  const BootTime time = clock.boot();
  std::vector<VolumeId> ids;
  std::vector<VolumePace> paces;
  for (const MapVolume& volume : view().map->volumes) {
    Member* const member = find(volume.id);
    if (member == nullptr) continue;
    VolumePace pace = member->health.pace;
    pace.bytes = member->health.bytes.load();
    pace.late = std::min(member->health.late_bytes.load(), pace.bytes);
    pace.lost = !member->open() || (member->health.suspect.load() & kNoAnswers) != 0;
    ids.push_back(volume.id);
    paces.push_back(pace);
  }
  if (!tells_paces(paces) && time - pace_began < kPaceWindowMax) return;
  pace_began = time;
  judge_paces(paces, time);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Health& health = find(ids[i])->health;
    health.bytes.fetch_sub(paces[i].bytes);
    health.late_bytes.fetch_sub(paces[i].late);
    health.pace = paces[i];
    const bool before = (paces[i].slow ? health.suspect.fetch_or(kSlow)
                                       : health.suspect.fetch_and(~std::uint32_t{kSlow})) &
                        kSlow;
    if (before == paces[i].slow) continue;
    if (paces[i].slow) health.read.store(due_at);
    log_event(paces[i].slow ? LogLevel::warn : LogLevel::info,
              paces[i].slow ? "volume_slow" : "volume_no_longer_slow",
              {{"volume", name_of(ids[i])}});
  }
}

Membership::Membership(std::shared_ptr<const ClusterMap> map, std::shared_ptr<const Ring> ring,
                       std::vector<std::shared_ptr<VolumeClient>> volumes, Clock& clock,
                       Connector connect) {
  state_ = std::make_unique<State>(clock, std::move(connect));
  state_->pace_began = clock.boot();
  state_->pace_due.store(state_->now());
  state_->install(std::move(map), std::move(ring), std::move(volumes));
}

Membership::~Membership() = default;

Result<bool> Membership::adopt(std::shared_ptr<const ClusterMap> map, SameEpoch other) {
  const std::lock_guard lock(state_->change_mutex);
  const ClusterMap& now = *state_->view().map;
  if (map->cluster != now.cluster || !takes_place_of(*map, now, other)) return false;
  // A ring depends on the volumes alone; most changes of groups leave them as they are.
  std::shared_ptr<const Ring> ring = state_->view().ring;
  if (map->volumes != now.volumes) {
    TRY(built, Ring::build(*map));
    ring = std::make_shared<const Ring>(std::move(built));
  }
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const MapVolume& volume : map->volumes) {
    if (state_->find(volume.id) != nullptr) continue;
    if (auto client = state_->meet(volume)) clients.push_back(std::move(client));
    state_->met.erase(volume.id);
  }
  log_event(LogLevel::info, "map_adopted", {{"epoch", std::to_string(map->epoch.value)}});
  state_->install(std::move(map), std::move(ring), std::move(clients));
  return true;
}

std::shared_ptr<const ClusterMap> Membership::map() const { return state_->view().map; }
bool Membership::is_current(const ClusterMap& map) const {
  return state_->view().map.get() == &map;
}

const Ring& Membership::ring() const { return *state_->view().ring; }

std::shared_ptr<VolumeClient> Membership::volume(VolumeId id) const {
  const Member* member = state_->find(id);
  return member == nullptr ? nullptr : member->client;
}

std::vector<std::shared_ptr<VolumeClient>> Membership::volumes() const {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const MapVolume& volume : map()->volumes) {
    if (auto client = this->volume(volume.id)) clients.push_back(std::move(client));
  }
  return clients;
}

std::vector<std::shared_ptr<VolumeClient>> Membership::reach(const ClusterMap& map) {
  const std::lock_guard lock(state_->change_mutex);
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const MapVolume& volume : map.volumes) {
    auto client = this->volume(volume.id);
    if (!client) client = state_->meet(volume);
    if (client) clients.push_back(std::move(client));
  }
  return clients;
}

bool Membership::stays(VolumeId id) const {
  const auto& places = state_->view().places;
  const auto at = places.find(id);
  return at != places.end() && at->second.stays;
}

void Membership::report(VolumeId id, bool success) {
  Member* member = state_->find(id);
  if (member == nullptr) return;
  Health& health = member->health;
  if (success) {  // the usual case writes nothing, so that the line stays shared between cores
    if (health.failures.load() != 0) health.failures.store(0);
    const std::uint32_t suspect = health.suspect.load();
    if ((suspect & kRegisters) != 0) state_->clear(id, *member, kRegisters);
    if (suspect != 0 && !holds(Rule::durable_clears)) report_durable(id);
    return;
  }
  if (health.failures.fetch_add(1) + 1 >= limits::kSuspectAfterFailures)
    state_->make_suspect(id, *member, kRegisters);
}

void Membership::report_answer(VolumeId id, std::optional<Errc> error) {
  switch (error.value_or(Errc::invalid)) {
    case Errc::overloaded:
    case Errc::aborted:
    case Errc::shutting_down:
      return;  // says nothing of the volume
    case Errc::unavailable:
    case Errc::timeout:
    case Errc::io:
      return report(id, false);
    default:
      return report(id, true);
  }
}

void Membership::report_fragment(VolumeId id, bool success) {
  Member* member = state_->find(id);
  if (member == nullptr) return;
  Health& health = member->health;
  if (success) {
    if ((health.suspect.load() & kNoAnswers) != 0) return;
    if (health.fragment_failures.load() != 0) health.fragment_failures.store(0);
  } else if (health.fragment_failures.fetch_add(1) + 1 >= limits::kSuspectAfterFailures) {
    state_->make_suspect(id, *member, kFragments);
  }
}

void Membership::report_durable(VolumeId id) {
  Member* member = state_->find(id);
  if (member == nullptr) return;
  Health& health = member->health;
  if (health.fragment_failures.load() != 0) health.fragment_failures.store(0);
  if (health.suspect.load() != 0) state_->clear(id, *member, kFragments);
}

void Membership::report_stalled(VolumeId id) {
  Member* member = state_->find(id);
  if (member == nullptr) return;
  member->health.fragment_failures.store(limits::kSuspectAfterFailures);
  state_->make_suspect(id, *member, kFragments);
}

void Membership::report_transfer(VolumeId id, std::uint64_t bytes, Duration took) {
  Member* member = state_->find(id);
  if (member == nullptr) return;
  member->health.bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (is_late_transfer(bytes, took)) {
    member->health.late_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  state_->end_pace_window();
}

bool Membership::slow(VolumeId id) const {
  const Member* member = state_->find(id);
  return member != nullptr && member->health.suspect.load() == kSlow && member->open();
}

void Membership::report_apart(const std::vector<VolumeId>& ids) {
  const auto current = map();
  for (const MapVolume& volume : current->volumes) {
    Member* const member = state_->find(volume.id);
    const bool apart = std::find(ids.begin(), ids.end(), volume.id) != ids.end();
    if (member != nullptr) member->health.apart.store(apart);
  }
}

bool Membership::is_apart(VolumeId id) const {
  const Member* member = state_->find(id);
  return member != nullptr && member->health.apart.load();
}

bool Membership::take_turn_to_read(VolumeId id) {
  if (!slow(id)) return false;
  return take_turn(state_->find(id)->health.read, state_->now(), Duration(kSlowReadEvery));
}

bool Membership::suspect(VolumeId id) const {
  const Member* member = state_->find(id);
  return member == nullptr || member->health.suspect.load() != 0 || !member->open();
}

std::uint64_t Membership::suspicions(VolumeId id) const {
  const Member* member = state_->find(id);
  return member == nullptr ? 0 : member->health.suspicions.load();
}

void Membership::report_damaged(VolumeId id) {
  if (Member* member = state_->find(id)) member->health.damaged.fetch_add(1);
}

std::uint64_t Membership::damaged(VolumeId id) const {
  const Member* member = state_->find(id);
  return member == nullptr ? 0 : member->health.damaged.load();
}

void Membership::probe_suspects(Executor executor) {
  state_->end_pace_window();
  for (const auto& [id, place] : state_->view().places) {
    if (!place.member || !place.member->open()) continue;
    Health& health = place.member->health;
    if ((health.suspect.load() & kNoAnswers) == 0) continue;
    if (!take_turn(health.probed, state_->now(), Duration(limits::kProbeEvery))) continue;
    const Deadline until = state_->clock.boot() + Duration(limits::kNoProgress);
    Probe probe{place.member, id, state_->name_of(id), until};
    boost::asio::co_spawn(executor, run_probe(std::move(probe)), boost::asio::detached);
  }
}

std::vector<VolumeId> Membership::unusable() const {
  std::vector<VolumeId> ids;
  for (const MapVolume& volume : map()->volumes) {
    const bool usable = !state_->is_suspect(volume.id) && state_->has_room(volume.id);
    if (!usable) ids.push_back(volume.id);
  }
  return ids;
}

std::vector<VolumeId> Membership::closed_or_full() const {
  std::vector<VolumeId> ids;
  for (const MapVolume& volume : map()->volumes) {
    if (!state_->has_room(volume.id)) ids.push_back(volume.id);
  }
  return ids;
}

}  // namespace penstock
