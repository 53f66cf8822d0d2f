// R13 in a world of servers: an older state of a volume's disk is put back, as from a backup. Its
// peers have noted a later start and must not admit it.
#include <algorithm>

#include "penstock/volume_note.h"
#include "server/membership/start_admission.h"
#include "tests/sim/world.h"

namespace penstock::sim {
namespace {

constexpr SimMicros kNoted = 3 * kSecond;  // by then a start is mostly noted by all that are there

}  // namespace

// The copy is made between two starts: one of a running volume is told by nobody before its next
// start. What the volume takes part in after that is lost with it.
void World::bring_old_copy_to_server(std::size_t index) {
  auto& volume = *volumes_[index];
  auto& server = server_of(index);
  if (copied_ || plan_.replaces || !server.running() || !volume.running()) {
    return lose_volume(index);
  }
  copied_ = true;
  copy_ = index;
  volume.leave_out();
  stop_server(server, SimServer::End::killed);
  const auto old = volume.disk().snapshot();
  start_server(server);
  if (!volume.running()) return lose_volume(index);
  const std::uint64_t start = volume.opened()->start_counter();
  outage_after(kNoted + random_.between(0, plan_.outage_max),
               [this, old, start] { put_back_old_copy(*old, start); });
}

// With 3 or 5 servers half of the others are enough to be admitted, and two halves need not meet:
// the start must have been noted by more.
bool World::is_noted(std::size_t index, std::uint64_t start) const {
  const VolumeId id = volumes_[index]->id();
  const AdmissionQuorum quorum = admission_quorum(*cluster_.map, id);
  std::uint64_t noted = 0;
  for (const auto& peer : volumes_) {
    const auto open = peer->opened();
    if (!open || peer->damaged() || !quorum.weights.contains(peer->id())) continue;
    const auto note = open->get_note(starts_note(id));
    if (note && noted_starts(*note).value_or(0) >= start) noted += quorum.weights.at(peer->id());
  }
  return noted >= quorum.majority;
}

void World::put_back_old_copy(const FakeDisk::Snapshot& old, std::uint64_t start) {
  auto& volume = *volumes_[copy_];
  if (volume.lost() || !is_noted(copy_, start)) return lose_volume(copy_);
  auto& server = server_of(copy_);
  stop_server(server, SimServer::End::killed);
  volume.disk().restore(old);
  put_back_ = true;
  restart_server(server, 1'000);
}

void World::check_put_back() {
  if (!put_back_) return;
  const auto open = volumes_[copy_]->opened();
  if (!open || open->status().state != VolumeStatus::State::open) return;
  put_back_ = false;  // said once
  history_.violation("an old copy of volume " + std::to_string(open->id().value) +
                     " is taken for it");
}

}  // namespace penstock::sim
