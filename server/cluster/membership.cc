#include "server/cluster/membership.h"

#include <atomic>
#include <cassert>

#include "penstock/log.h"

namespace penstock {
namespace {

// What the detector knows of one volume. Atomics instead of a lock: every call of every request
// asks.
struct Health {
  std::atomic<int> failures{0};  // in a row
  std::atomic<bool> suspect{false};
  std::atomic<BootTime::rep> probed{0};  // when it became suspect or was last tried again
};

struct Member {
  std::shared_ptr<VolumeClient> client;
  Health health;
  bool open() const { return client->status().state == VolumeStatus::State::open; }
};

}  // namespace

struct Membership::State {
  State(std::shared_ptr<const ClusterMap> m, Ring r, Clock& c)
      : map(std::move(m)), ring(std::move(r)), clock(c) {}

  Member* find(VolumeId id) const {
    const auto at = members.find(id);
    return at == members.end() ? nullptr : at->second.get();
  }
  BootTime::rep now() const { return clock.boot().time_since_epoch().count(); }
  void make_suspect(VolumeId id, Member& member) {
    if (member.health.suspect.exchange(true)) return;
    member.health.probed.store(now());
    log_event(LogLevel::warn, "volume_suspect", {{"volume", name_of(id)}});
  }
  void clear(VolumeId id, Member& member) {
    if (member.health.suspect.exchange(false)) {
      log_event(LogLevel::info, "volume_answers_again", {{"volume", name_of(id)}});
    }
  }
  std::string name_of(VolumeId id) const {
    const MapVolume* volume = map->find(id);
    return volume == nullptr ? std::to_string(id.value) : volume->name;
  }
  bool takes_fragments(VolumeId id) const {
    const Member* member = find(id);
    if (member == nullptr || member->health.suspect.load()) return false;
    const VolumeStatus status = member->client->status();
    return status.state == VolumeStatus::State::open && !status.full;
  }
  std::vector<VolumeId> filtered(bool takes) const {
    std::vector<VolumeId> ids;
    for (const MapVolume& volume : map->volumes) {
      if (takes_fragments(volume.id) == takes) ids.push_back(volume.id);
    }
    return ids;
  }

  // Constant after construction; only the atomics of the members change.
  const std::shared_ptr<const ClusterMap> map;
  const Ring ring;
  Clock& clock;
  std::unordered_map<VolumeId, std::unique_ptr<Member>> members;
};

Membership::Membership(std::shared_ptr<const ClusterMap> map, Ring ring,
                       std::vector<std::shared_ptr<VolumeClient>> volumes, Clock& clock)
    : state_(std::make_unique<State>(std::move(map), std::move(ring), clock)) {
  for (auto& client : volumes) {
    const VolumeId id = client->id();
    auto member = std::make_unique<Member>();
    member->client = std::move(client);
    [[maybe_unused]] const bool first = state_->members.emplace(id, std::move(member)).second;
    assert(first && "one client per volume");
  }
}

Membership::~Membership() = default;

std::shared_ptr<const ClusterMap> Membership::map() const { return state_->map; }

const Ring& Membership::ring() const { return state_->ring; }

std::shared_ptr<VolumeClient> Membership::volume(VolumeId id) const {
  const Member* member = state_->find(id);
  return member == nullptr ? nullptr : member->client;
}

std::vector<std::shared_ptr<VolumeClient>> Membership::volumes() const {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const MapVolume& volume : state_->map->volumes) {
    if (auto client = this->volume(volume.id)) clients.push_back(std::move(client));
  }
  return clients;
}

void Membership::report(VolumeId id, bool success) {
  Member* member = state_->find(id);
  if (member == nullptr) return;
  Health& health = member->health;
  if (success) {  // the usual case writes nothing, so that the line stays shared between cores
    if (health.failures.load() != 0) health.failures.store(0);
    if (health.suspect.load()) state_->clear(id, *member);
    return;
  }
  if (health.failures.fetch_add(1) + 1 >= limits::kSuspectAfterFailures)
    state_->make_suspect(id, *member);
}

void Membership::report_stalled(VolumeId id) {
  Member* member = state_->find(id);
  if (member == nullptr) return;
  member->health.failures.store(limits::kSuspectAfterFailures);
  state_->make_suspect(id, *member);
}

bool Membership::suspect(VolumeId id) const {
  const Member* member = state_->find(id);
  return member == nullptr || member->health.suspect.load() || !member->open();
}

bool Membership::probe_due(VolumeId id) {
  Member* member = state_->find(id);
  if (member == nullptr || !(member->health.suspect.load() || !member->open())) return false;
  const BootTime::rep now = state_->now();
  BootTime::rep last = member->health.probed.load();
  const auto due = last + Duration(limits::kProbeEvery).count();
  return now >= due && member->health.probed.compare_exchange_strong(last, now);
}

std::vector<VolumeId> Membership::usable() const { return state_->filtered(true); }

std::vector<VolumeId> Membership::unusable() const { return state_->filtered(false); }

}  // namespace penstock
