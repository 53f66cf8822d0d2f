// Faults come one after another; each plans the next.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstddef>
#include <numeric>

#include "penstock/volume_note.h"
#include "tests/sim/world.h"

namespace penstock::sim {
namespace {
// What each start of a volume tells its peers.
Awaitable<void> note_start(std::shared_ptr<Volume> started, std::shared_ptr<Volume> peer,
                           std::shared_ptr<std::vector<std::shared_ptr<Volume>>> noted) {
  auto told =
      co_await peer->put_note(starts_note(started->id()), std::to_string(started->start_counter()));
  if (told) noted->push_back(peer);
}

constexpr SimMicros kStrikeUntil = 12 * kSecond;
constexpr std::ptrdiff_t kGatewaysMax = 12;  // dead ones included
}  // namespace

void World::schedule_faults() {
  time_.after(random_.between(10'000, plan_.fault_every), [this] {
    if (!faults_on_) return;
    if (time_.now() > kStrikeUntil) return mend_volumes();
    const auto& weights = plan_.fault_weights;
    auto dice = random_.between(0, std::accumulate(weights.begin(), weights.end(), 0) - 1);
    std::size_t chosen = 0;
    while (dice >= weights[chosen]) dice -= weights[chosen++];
    strike(static_cast<Fault>(chosen));
    schedule_faults();
  });
}

void World::strike(Fault fault) {
  constexpr SimMicros kHour = 3600 * kSecond;
  switch (fault) {
    case Fault::crash:
      return crash_volume(any_volume());
    case Fault::crash_at:
      return crash_at_change(any_volume());
    case Fault::crash_all:
      return crash_all();
    case Fault::kill_gateway:
      return kill_gateway();
    case Fault::cut_wire:
      if (plan_.cluster) return cut_places(any_place(), server_of(any_volume()).place());
      return cut_wire(pick_gateway(), any_volume());
    case Fault::cut_off: {
      if (plan_.cluster) {
        const Place one = any_place();
        for (const auto& server : servers_) {
          if (random_.chance(0.4)) cut_places(one, server->place());
        }
        return;
      }
      const auto gateway = pick_gateway();
      for (std::size_t i = 0; i < volumes_.size(); ++i) {
        if (random_.chance(0.4)) cut_wire(gateway, i);
      }
      return;
    }
    case Fault::jump_volume:
      return volumes_[any_volume()]->clock().jump(random_.between(-kHour, kHour));
    case Fault::jump_gateway:
      return pick_gateway()->clock().jump(random_.between(-kHour, kHour));
    case Fault::disk_error:
      return disk_error(any_volume());
    case Fault::disk_full:
      return disk_full(any_volume());
    case Fault::damage:
      return damage(any_volume());
    case Fault::hang:
      return hang(any_volume());
    case Fault::break_off:
      return break_off();
    case Fault::pause:
      return pause_gateway();
  }
}

void World::outage_after(SimMicros delay, std::function<void()> outage) {
  ++outages_;
  time_.after(delay, [this, outage = std::move(outage)] {
    --outages_;
    outage();
  });
}

void World::crash_volume(std::size_t index) {
  auto& volume = *volumes_[index];
  if (plan_.cluster) {
    auto& server = server_of(index);
    if (!server.running()) return;
    if (random_.chance(0.2)) return stop_gently(server);
    stop_server(server,
                random_.chance(0.6) ? SimServer::End::without_power : SimServer::End::killed);
    return restart_server(server, random_.between(1'000, plan_.outage_max));
  }
  if (!volume.running()) return;
  if (random_.chance(0.6)) {
    volume.crash();
  } else {
    volume.kill();
  }
  restart_volume(index, random_.between(1'000, plan_.outage_max));
}

// The power goes between two steps of whatever the volume is doing.
void World::crash_at_change(std::size_t index) {
  if (!volumes_[index]->running()) return;
  volumes_[index]->crash_at_change(1 + random_.below(30));
  outage_after(random_.between(10'000, plan_.outage_max), [this, index] {
    if (volumes_[index]->lost()) return;
    if (plan_.cluster) {
      stop_server(server_of(index), SimServer::End::without_power);
    } else {
      volumes_[index]->crash();
    }
    restart_volume(index, random_.between(1'000, plan_.outage_max));
  });
}

void World::crash_all() {
  for (std::size_t i = 0; i < volumes_.size(); ++i) crash_volume(i);
  if (!plan_.direct) return;
  replace_gateway(pick_gateway());
}

void World::restart_volume(std::size_t index, SimMicros delay) {
  if (plan_.cluster) return restart_server(server_of(index), delay);
  outage_after(delay, [this, index] {
    auto& volume = *volumes_[index];
    if (volume.running() || volume.lost()) return;
    const auto started = volume.start();
    if (started || volume.damaged() || volume.full()) return;
    history_.violation("volume " + std::to_string(index) +
                       " does not start: " + started.error().context);
  });
}

void World::replace_gateway(const std::shared_ptr<SimGateway>& victim) {
  victim->kill();
  auto next = plan_.cluster ? add_peer_gateway() : add_gateway(victim->local());
  if (victim == driver_) drive_replacement(std::move(next));
}

// Where gateway and volumes are one process they die together: crash_all().
void World::kill_gateway() {
  const auto served = std::count_if(gateways_.begin(), gateways_.end(),
                                    [](const auto& known) { return known->serves_clients(); });
  if (plan_.direct || served >= kGatewaysMax) return;
  replace_gateway(pick_gateway());
}

void World::cut_wire(const std::shared_ptr<SimGateway>& gateway, std::size_t index) {
  if (plan_.direct) return;
  if (index >= gateway->wires().size()) return;  // it does not know the new volume yet
  const auto& wire = gateway->wires()[index];
  const bool requests = random_.chance(0.5);
  (requests ? wire->cut_requests : wire->cut_answers) = true;
  time_.after(random_.between(10'000, plan_.outage_max), [gateway, wire, requests] {
    if (gateway->alive()) (requests ? wire->cut_requests : wire->cut_answers) = false;
  });
}

// A disk that fails a call is rebooted later.
void World::disk_error(std::size_t index) {
  using Call = FakeDisk::Call;
  constexpr Call kCalls[] = {Call::write,    Call::write,         Call::write,  Call::sync,
                             Call::sync,     Call::create,        Call::rename, Call::remove,
                             Call::allocate, Call::sync_directory};
  auto& volume = *volumes_[index];
  if (!volume.running()) return;
  const Call call = kCalls[random_.below(std::size(kCalls))];
  const bool torn = call == Call::write && random_.chance(0.5);
  volume.disk().fail(call, 1 + random_.below(20),
                     torn ? FakeDisk::Fault::short_write : FakeDisk::Fault::io);
  outage_after(random_.between(10'000, plan_.outage_max), [this, index] { crash_volume(index); });
}

// Reads, writes, or all. It passes, or the volume's watch closes it and its process is started
// anew.
void World::hang(std::size_t index) {
  auto& volume = *volumes_[index];
  if (!volume.running() || volume.hangs()) return;
  constexpr unsigned kKinds[] = {HungDisk::kReads, HungDisk::kWrites,
                                 HungDisk::kReads | HungDisk::kWrites};
  volume.hang(kKinds[random_.below(std::size(kKinds))]);
  const bool passes = random_.chance(0.5);
  const SimMicros time = passes ? random_.between(100'000, 9 * kSecond) : 12 * kSecond;
  outage_after(time, [this, index] {
    auto& hung = *volumes_[index];
    if (!hung.hangs()) return;  // it was restarted meanwhile
    const auto client = hung.opened();
    hung.answer_again();
    if (!client || client->status().state == VolumeStatus::State::open) return;
    if (plan_.cluster) {
      stop_server(server_of(index), SimServer::End::killed);
    } else {
      hung.kill();
    }
    restart_volume(index, random_.between(1'000, plan_.outage_max));
  });
}

void World::disk_full(std::size_t index) {
  volumes_[index]->set_full(true);
  outage_after(random_.between(100'000, plan_.outage_max + 100'000), [this, index] {
    volumes_[index]->set_full(false);
    if (random_.chance(0.5)) crash_volume(index);
    restart_volume(index, kSecond);
  });
}

// Up to p volumes are lost, or a part of what they hold.
void World::damage(std::size_t index) {
  auto& volume = *volumes_[index];
  if (losses_left_ == 0 || volume.damaged()) return;
  --losses_left_;
  switch (random_.between(0, 6)) {
    case 0:
      return lose_volume(index);
    case 1:
      return volume.fail_from_now_on();
    case 2:
      if (plan_.cluster) crash_volume(index);
      volume.wipe();
      return check_wiped(index);
    case 3:
      volume.lose_file();
      break;
    case 4:
      if (plan_.cluster) return bring_old_copy_to_server(index);
      return bring_old_copy(index);
    default:
      volume.flip_bit();
      break;
  }
  if (random_.chance(0.5)) crash_volume(index);
}

// What it answers while it goes must reach nobody, as if its process had died: it has.
void World::lose_volume(std::size_t index) {
  if (plan_.cluster) crash_volume(index);
  volumes_[index]->lose();
}

// R13: an empty disk is a missing volume, never a new one.
void World::check_wiped(std::size_t index) {
  const auto started = volumes_[index]->start();
  if (started) history_.violation("volume " + std::to_string(index) + " starts from nothing");
}

// R13: the volume starts once more, which its peers note; then an older state of its disk is put
// back, as from a backup. They must tell it from the volume.
void World::bring_old_copy(std::size_t index) {
  auto& volume = *volumes_[index];
  if (!volume.running()) return volume.lose();
  const auto old = volume.disk().snapshot();
  volume.leave_out();
  volume.kill();
  if (!volume.start()) return volume.lose();
  const auto noted = std::make_shared<std::vector<std::shared_ptr<Volume>>>();
  for (const auto& peer : volumes_) {
    if (peer->id() == volume.id() || !peer->running()) continue;
    boost::asio::co_spawn(time_.io(), note_start(volume.opened(), peer->opened(), noted),
                          boost::asio::detached);
  }
  outage_after(random_.between(10'000, plan_.outage_max), [this, index, old, noted] {
    auto& copy = *volumes_[index];
    copy.kill();
    copy.disk().restore(*old);
    if (copy.start()) check_old_copy(*copy.opened(), *noted);
    copy.lose();
  });
}

void World::check_old_copy(const Volume& copy, const std::vector<std::shared_ptr<Volume>>& noted) {
  for (const auto& peer : volumes_) {
    const auto open = peer->opened();
    if (std::find(noted.begin(), noted.end(), open) == noted.end()) continue;
    const auto seen = open->get_note(starts_note(copy.id()));
    if (!seen || noted_starts(*seen).value_or(0) < copy.start_counter()) {
      history_.violation("an old copy of volume " + std::to_string(copy.id().value) +
                         " is taken for it");
    }
  }
}

// No outage ends what a disk does that was still to fail when its volume had started again. With
// too many of those away, clients would wait for one deadline after another and show nothing.
void World::mend_volumes() {
  if (!plan_.mends) return;
  time_.after(kSecond, [this] {
    if (!faults_on_) return;
    if (outages_ > 0) return mend_volumes();
    bring_back_volumes();
  });
}

void World::bring_back_volumes() {
  if (plan_.cluster) return bring_back_servers();
  for (std::size_t i = 0; i < volumes_.size(); ++i) {
    auto& volume = *volumes_[i];
    if (volume.lost()) continue;
    volume.disk().heal();
    const auto client = volume.current();
    const bool open = client && client->status().state == VolumeStatus::State::open;
    if (!open) volume.crash();
    restart_volume(i, 1'000);
  }
}

void World::heal() {
  faults_on_ = false;
  faults_ = NetworkFaults{};
  network_.faults() = StreamFaults{};
  network_.heal();
  for (const auto& gateway : gateways_) {
    if (!gateway->alive()) continue;
    gateway->clock().set_right();
    for (const auto& wire : gateway->wires()) wire->cut_requests = wire->cut_answers = false;
  }
  for (const auto& volume : volumes_) {
    if (volume->hangs()) volume->answer_again();
    volume->set_full(false);
    volume->clock().set_right();
  }
  bring_back_volumes();
}

}  // namespace penstock::sim
